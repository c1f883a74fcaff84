"""What happened, on one page: the tables of the lake measured by Spark, and a page that needs nothing else.

========== ====================================================================================
run        the steps, one after another: a lake in, a ``Report`` out
spans      the range of time that is looked at, and its bins
measures   frames to small tables: volume, delay, sizes, keys, what is invalid, what became of the events
samples    some of the data of each type, for ``drift``
drift      which fields of the data came, went, or changed their type; pure
tables     a small table: what a measure gives, and the file behind the page
findings   what is worth a look, said in words; pure
words      numbers, times and sizes as people read them; pure
charts     what charts show and where, and their colours; pure
page       tables to HTML, by the template ``page.html``; pure
========== ====================================================================================
"""

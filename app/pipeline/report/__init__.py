"""Report on one page what happened: DuckDB measures the tables of the lake, and the page needs
nothing else.

========== ====================================================================================
run        the steps, one after another: from a lake to a ``LakeReport``
spans      the range of time, and its bins
scope      the records of the range, as views of DuckDB
measures   SQL to small tables: volume, delay, sizes, keys, invalid records, deliveries
samples    a sample of the data of each type, for ``drift``
drift      which fields of the data were added, removed, or changed their type; pure
tables     a small table: the result of a measure, and its file
findings   sentences on what deserves attention; pure
words      numbers, times and sizes in readable form; pure
charts     the contents, positions and colours of charts; pure
page       tables to HTML, by the template ``page.html``; pure
========== ====================================================================================
"""

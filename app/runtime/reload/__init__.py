"""Shell. A running service applies another configuration completely, or not at all.

============  ==================================================================
``reloader``  reads, validates and compares the file, and reports the result
``judges``    checks proposed configurations in another process
``watching``  watches the files and SIGHUP
============  ==================================================================
"""

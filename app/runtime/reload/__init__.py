"""Shell. A running service applies another configuration: all of it, or nothing.

``reloader``  reads, validates, compares; reports the result
``renewal``   builds the new parts, swaps, and ends the old parts in order
``watching``  watches the file
"""

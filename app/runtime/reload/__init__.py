"""Shell. A running service takes up another configuration: whole, or not at all.

``reloader``  reads, validates, compares; says what became of it
``renewal``   builds what is new, swaps, and lets what is old end in its time
``watching``  looks at the file
"""

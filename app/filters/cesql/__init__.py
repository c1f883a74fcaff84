"""Pure. CloudEvents SQL 1.0.0: ``tokens`` and ``parser`` make ``nodes`` of a text, ``compiler`` makes a
closure of them, once; ``expression`` is what others use, ``decision`` and ``printer`` explain.

An evaluation gives a value and errors, and never raises. It fails fast (spec 4.1): what a failed
part is an operand of has the zero value of its own type. Texts and nesting are bounded, nothing backs
up without end, and nothing but the event is read. ``DATA`` and ``HAS_DATA`` are ours.
"""

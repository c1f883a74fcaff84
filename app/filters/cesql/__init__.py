"""Pure. CloudEvents SQL 1.0.0, compiled once per expression.

``tokens`` and ``parser`` turn text into ``nodes``, and ``compiler`` turns the nodes into a closure. Other
packages use ``expression``; ``decision`` and ``printer`` explain results.

An evaluation returns a value and errors, and never raises. It fails fast (CESQL 4.1): if a part fails, the
evaluation ends with the zero value of the expression's type. Text length and nesting are limited, matching
takes bounded time, and an expression reads only the event. ``DATA``, ``HAS_DATA`` and ``TIME`` are extensions
of Skybridge.
"""

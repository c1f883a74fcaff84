"""Shell. ``serve --workers N``: several processes take events on one port.

``many`` starts it all · ``parent`` starts processes, replaces dead ones, passes signals on · ``slots`` what
it knows of each, and when it tries again · ``pipe``, ``messages`` what parent and children tell each
other · ``child`` how a process begins under its parent · ``owner`` process 1: the log, the store, the worker,
the admin listener · ``gateway`` the others: the events listener alone · ``door`` how these reach an embedded
log: a Kafka listener that nobody else can use · ``crew`` what process 1 knows of all of them · ``usage`` what
they cost.
"""

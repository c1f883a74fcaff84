"""Groups of a log: their members, their positions, and how both are stored.

One process owns all groups of a log. Skybridge's workers and the clients of a Kafka listener use the same
``coordinator``.

``protocol`` has the requests and answers of Kafka's classic group protocol. ``state_machine`` is one group, pure,
with time as an argument. ``coordinator`` runs groups with futures, timers and fencing. ``store`` writes positions
and generations, and ``positions`` has them in memory. ``membership`` is a member in this process. ``assignment``
computes which member reads which partition, in the wire form of Kafka's clients."""

"""Groups of a log: who is in them, what they have read, and what is stored of both. One folder owns them; our own
workers and the clients of a Kafka listener come in by the same ``coordinator``.

``protocol`` Kafka's classic group protocol as values · ``state_machine`` one group, pure, time as an argument
``coordinator`` groups at work: futures, timers, fences · ``store`` what is durable · ``positions`` the same in memory
``membership`` a member in this process · ``assignment`` who reads which partition, in the form of Kafka's clients
"""

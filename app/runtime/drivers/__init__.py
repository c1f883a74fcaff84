"""From the settings of a broker to its driver, one module a kind: imported when a configuration names it, because
the clients are a third of the time that a start takes, and of the memory.
"""

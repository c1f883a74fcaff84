"""Pure. Selection of events by routes and subscriptions: ``model`` is the form in the configuration,
``dialects`` compiles it into a predicate, ``selection`` evaluates it, ``cesql`` is CloudEvents SQL; ``index`` and ``explain`` describe filters.
"""

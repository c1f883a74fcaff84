"""Pure. Filters select events for routes and subscriptions.

``model`` is the form in the configuration, ``dialects`` compiles it to a predicate, ``selection`` evaluates
it for a subscription. ``cesql`` is CloudEvents SQL. ``index`` and ``explain`` describe filters.
"""

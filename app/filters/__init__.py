"""Pure. Which events a route or a subscription wants: ``model`` is what users write, ``dialects`` makes
one predicate of it, ``cesql`` is CloudEvents SQL; ``index`` and ``explain`` tell others about filters.
"""

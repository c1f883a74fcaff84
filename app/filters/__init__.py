"""Pure. Which events a route or a subscription wants: filters compiled to one predicate."""

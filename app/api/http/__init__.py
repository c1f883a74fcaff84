"""Shell. What all resources of the admin listener share: problems, bodies, parameters, preconditions, slices of long work."""

"""Shell. What all resources of the admin listener share: problems, bodies, parameters, preconditions, and
long work in slices."""

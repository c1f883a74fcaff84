"""Shell. Callers of the admin listener: what their token may do, which part of the service they reach, and their audit."""

"""Shell. Callers of the admin listener: the rights of their tokens, the parts that they reach, and their
audit."""

"""Shell. Callers of the admin listener: the rights of their tokens, the subscriptions and topics that they
may access, and the audit of their requests."""

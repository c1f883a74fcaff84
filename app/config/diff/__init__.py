"""Shell. Compare two configurations. Report what a proposed configuration would change in the
running service.
"""

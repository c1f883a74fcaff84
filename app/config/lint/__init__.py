"""Shell. Checks for mistakes in a valid configuration. ``checks`` runs all of them."""

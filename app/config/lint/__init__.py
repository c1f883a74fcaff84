"""Shell. Mistakes that a valid configuration may still hold; ``checks`` runs all of them."""

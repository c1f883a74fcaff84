"""Shell. The console: files that a browser gets, built from ``web``. Whatever they show comes from the admin API,
which ``curl`` with the same scope can have (ADR 0041)."""

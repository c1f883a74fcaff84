"""Shell. The console: static files for browsers, built from ``web``. It shows only what the admin API returns
to ``curl`` with the same scope (ADR 0041)."""

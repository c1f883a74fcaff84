"""Shell. The admin listener (FastAPI): health, status, metrics, topics, dead letters, OpenAPI."""

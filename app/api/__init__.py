"""Shell. The admin listener (FastAPI): subscriptions, topics, dead letters, health, metrics, OpenAPI."""

"""Shell. The OpenAPI document of both listeners, and the page that shows it."""

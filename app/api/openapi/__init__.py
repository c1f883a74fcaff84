"""Shell. The OpenAPI document of both listeners, and the HTML page that shows it."""

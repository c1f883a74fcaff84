"""The subscriptions of the file and of the API, and their deliveries."""

"""Shell. ``/v1/alerts``: the alerts, what they have sent, and a test of their channels."""

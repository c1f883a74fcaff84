"""Shell. ``/v1/subscriptions``: their documents, verbs, replays and event streams, and the CloudEvents draft API."""

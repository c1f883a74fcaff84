"""Shell. ``/v1/subscriptions``: documents, actions, replays and event streams of subscriptions, and the
CloudEvents draft API."""

"""Shell. The verbs of pull subscriptions: receive, acknowledge, release, reject, renew."""

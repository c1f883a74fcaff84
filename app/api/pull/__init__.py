"""Shell. The operations of pull subscriptions: receive, acknowledge, release, reject, renew."""

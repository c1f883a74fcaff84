"""Pure. The product's terms as values: routes, subscriptions, messages, receipts, settings."""

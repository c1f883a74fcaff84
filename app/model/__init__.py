"""Pure. The product's terms as values: route, subscription, message, receipt, capabilities."""

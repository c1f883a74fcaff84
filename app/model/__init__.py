"""Pure. The words of the product as values: route, subscription, message, receipt, capabilities."""

"""Shell. Load and lint one input: the file, a subscription that the API makes, test cases of routes."""

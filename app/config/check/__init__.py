"""Shell. Load and lint one input: the file, a subscription of the API, or test cases of routes."""

"""Pure. Who sends, what a producer may do, and how much. Time is an argument; caches are the callers'."""

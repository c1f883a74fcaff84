"""Shell. Compare two configurations, and judge what a proposed one would change in the running
service.
"""

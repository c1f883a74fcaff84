"""Shell. One attempt to deliver, and nothing else: no policy, no retry, no opinion on the answer.

``webhook`` posts by aiohttp, ``resolver`` keeps it from addresses that a webhook may not have.
"""

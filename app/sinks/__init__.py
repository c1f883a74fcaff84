"""Shell. One attempt to deliver, and nothing else: no policy, no retry, no opinion on the answer.

``webhook`` writes the event for HTTP, ``posting`` posts it by aiohttp, ``resolver`` keeps it from
addresses that a webhook may not have, ``lookup`` asks for them; ``topic`` writes it for a broker.
"""

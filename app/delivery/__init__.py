"""Pure. Decides what becomes of a message on its way out; never sends, waits or looks at a clock.

``lanes`` says who may be sent next, ``outcomes`` what an answer means, ``backoff`` how long to wait,
``endpoint`` whether the target may be sent to at all, ``plan`` draws the conclusion, ``offsets``
says how far a partition is finished, ``address_guard`` which addresses a webhook may have.
Moments are seconds on whatever clock the caller uses throughout; chance is an argument in [0, 1).
"""

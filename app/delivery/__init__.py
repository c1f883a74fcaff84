"""Pure. Decides about a message on its way out; never sends, waits or reads a clock.

``lanes`` says who may be sent next, ``parked_lanes`` which keys wait in the store and ``lane_id`` under
what name, ``outcomes`` what an answer means, ``backoff`` how long to wait, ``event_age`` what is too old,
``endpoint`` whether the target may be sent to at all, ``plan`` draws the conclusion, ``offsets`` says
how far a partition is finished, ``fair_share`` who may take how much, ``expiry`` whether a pause lasts too
long, ``address_guard`` which addresses a webhook may have. ``signing`` and ``verifying`` are the two
sides of a signature, ``handshake`` what consent is and ``rate`` how it is kept to.
Moments are seconds on whatever clock the caller uses throughout; chance is an argument in [0, 1).
"""

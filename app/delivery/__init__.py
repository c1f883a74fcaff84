"""Pure. Decides about a message on its way out, without sending, waiting or reading a clock.

``lanes`` decides which event is sent next. ``parked_lanes`` has the keys that wait in the store, and ``lane_id``
makes their ids. ``outcomes`` classifies an answer, and ``plan`` decides what follows from it. ``backoff`` computes
waits, and ``event_age`` finds events that are too old. ``endpoint`` is the circuit breaker of a target.

``offsets`` has the finished messages of a partition. ``fair_share`` divides bounds between subscriptions.
``expiry`` warns when a pause lasts too long. ``address_guard`` checks the addresses of webhooks. ``signing`` and
``verifying`` are the two sides of a signature. ``handshake`` reads the consent of a webhook, and ``rate`` keeps its
rate. ``service_verdicts`` and ``subscription_verdicts`` decide what needs a person.

Times are seconds on the clock of the caller. Random numbers are arguments in [0, 1)."""

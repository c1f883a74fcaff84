"""Shell. Takes messages from a log, delivers each, and finishes it where it came from.

::

    origins     LogPartition | StoredRow | ReplayedRange
       │        finish()  retry_at(t)  dead_letter(letter)  release()
       │  Delivery(message, decoded, lane, attempts, origin)
       ▼
    scheduler ─► sink.send ─► delivery.plan.conclude ─► conclusions ─► delivery.origin.<verb>

``supervisor`` runs one ``dispatch.Dispatcher`` a subscription; ``supervised_dispatcher`` keeps it running. The
dispatcher asks its log for batches, as many as ``intake`` has room for; ``ownership`` makes ready what is newly ours,
``decode_and_filter`` makes deliveries, ``scheduler`` sends them (``batching``: several in one request) when
``gate``, ``timing`` and ``budget`` let it, and ``conclusions`` carries out what ``delivery_policy`` decided.

``origins`` are the places where deliveries come from, and what finishes them there; ``stored_rows`` does for rows.
``owned_partition`` is a partition while this process owns it; ``request_bounds`` reads the bounds of requests from
the settings of a subscription.
``parking`` makes rows of a key that waits; ``drain_parked`` and ``redrive`` send rows again; ``replay`` reads a range
again. ``drain_parked`` also tries a target that was at fault.
``attempts`` remembers and counts, ``attempt_writer`` stores it; ``watches`` looks at logs that may expire and at
queues that are pulled; ``components`` makes the parts of a dispatcher, ``shared`` is what all of them have;
``report`` says how it fares; ``alerts`` and ``operator_events`` tell people; ``commands`` does what the API asks.
"""

"""Shell. Take messages from a log, deliver them to sinks, and finish each message at its source.

::

    origins     LogPartition | StoredRow | ReplayedRange
       │        finish()  retry_at(t)  dead_letter(letter)  release()
       │  Delivery(message, decoded, lane, attempts, origin)
       ▼
    scheduler ─► sink.send ─► delivery.plan.conclude ─► conclusions ─► delivery.origin.<verb>

``supervisor`` runs one ``dispatch.Dispatcher`` per subscription, and ``supervised_dispatcher`` restarts a
dispatcher that fails. The dispatcher polls its log for batches while ``intake`` allows it. ``ownership`` prepares
newly assigned partitions, and ``decode_and_filter`` makes deliveries. ``scheduler`` sends deliveries, and
``batching`` sends several in one request. ``gate``, ``timing`` and ``budget`` can delay them. ``conclusions``
carries out what ``delivery_policy`` decided.

``origins`` and ``stored_rows`` are the sources of deliveries, which also finish them. ``owned_partition`` is a
partition while this process owns it. ``request_bounds`` reads the bounds of requests from a subscription.

``parking`` writes the rows of a waiting key. ``drain_parked`` and ``redrive`` send stored rows again, and
``replay`` reads a range again. ``drain_parked`` also probes a target that was at fault.

``attempts`` counts and remembers attempts, and ``attempt_writer`` stores them. ``watches`` checks the retention of
logs and the queues of pull subscriptions. ``components`` makes the parts of a dispatcher, which share the context
in ``shared``. ``report`` builds the status, ``alerts`` and ``operator_events`` notify operators, and ``commands``
runs commands of the API."""

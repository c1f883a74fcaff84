"""What is reached below the public classes of the client library: here, and nowhere else.

The client itself, its settings and every constant are public ones. Not public is the asynchronous
half of a plain client, which is needed for three reasons, each measured or seen:

- ``pulsar.Client`` makes producers, consumers and readers by blocking calls, and receives by one.
- ``pulsar.asyncio`` wakes the loop for each record: 43 against 28 µs of CPU a publish.
- A callback of ``pulsar.asyncio`` that comes when its loop is closed raises on a thread of the C++
  library, which ends the process (``terminate called``, signal 6). Ours comes by the bridge.

``test_internals`` holds every name that is used of what these functions return.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import _pulsar
import pulsar

MessageBuilder = _pulsar.MessageBuilder


def below(client: pulsar.Client) -> Any:
    """The client's asynchronous half: ``create_producer_async``, ``subscribe_async``, ..."""
    return client._client  # noqa: SLF001


def message_id(ledger: int, entry: int, batch: int) -> Any:
    return _pulsar.MessageId(-1, ledger, entry, batch)


def producing(compression: pulsar.CompressionType, send_timeout: float) -> Any:
    """One producer a partition, so that the partition is ours to choose. No batches of the client:
    they need waiting, save nothing (measured), and cross keys. ``send_timeout``: seconds."""
    conf = _pulsar.ProducerConfiguration()
    conf.send_timeout_millis(round(send_timeout * 1000))
    conf.block_if_queue_full(False)  # it would block the loop
    conf.max_pending_messages(0)  # the bounds are the portable log's
    conf.max_pending_messages_across_partitions(0)
    conf.batching_enabled(False)
    conf.compression_type(compression)
    return conf


def consuming(name: str, receiver_queue: int, listener: Callable[[Any, Any], None]) -> Any:
    """A member under Failover. By a listener, not by ``receive_async``: between asking whether somebody
    waits for a message and putting it at hand, the library lets go of its lock, and a receive that
    comes then waits for the *next* message, which overtakes this one."""
    conf = _pulsar.ConsumerConfiguration()
    conf.consumer_type(pulsar.ConsumerType.Failover)
    conf.consumer_name(name)
    conf.receiver_queue_size(receiver_queue)
    conf.message_listener(listener)
    conf.batch_index_ack_enabled(True)
    # A partition that has no subscription yet is new: nothing before us may be passed over.
    conf.subscription_initial_position(pulsar.InitialPosition.Earliest)
    return conf


def reading() -> Any:
    """From the message asked for on, that message included."""
    conf = _pulsar.ReaderConfiguration()
    conf.start_message_id_inclusive(True)
    return conf

"""Read a range of one partition as Arrow batches, with the blocking calls of the client library.

The asynchronous calls of the library can lose a message or swap two
(``app.brokers.pulsar.connection``). The module runs in Spark's Python workers, so most imports are
inside the functions that need them.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from app.spark.pulsar.options import Options
from app.tls import Copies, Pems

if TYPE_CHECKING:
    import pyarrow as pa

BATCH: Final = 2_000  # records of one Arrow batch
WITHIN: Final = 30_000  # ms for a message that the broker has announced

_ENTRY_BITS: Final = 20
_BATCH_BITS: Final = 12
_LEDGERS: Final = 1 << 31
_ENTRIES: Final = 1 << _ENTRY_BITS
_BATCHED: Final = (1 << _BATCH_BITS) - 1  # one value means: not in a batch

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""A row of a batch: offset, publish time in ms since 1970, key, value and headers."""


class MessageIdParts(NamedTuple):
    """A message id of Pulsar. Spark's offset is this id as one number, which grows with the ids of
    a partition.

    The number equals ``app.brokers.pulsar.positions.Position.offset``, which Spark's workers do not
    import.

    Attributes:
        ledger: The ledger id.
        entry: The entry id.
        batch: The index in the batch; -1 for a message without a batch, and for the start of an
            entry.
    """

    ledger: int
    entry: int
    batch: int = -1


def offset_of(ledger: int, entry: int, batch: int = -1) -> int:
    """Return a message id as a number.

    Raises:
        OverflowError: The id does not fit, so two messages would have the same number.
    """
    if ledger >= _LEDGERS or entry >= _ENTRIES or batch >= _BATCHED:
        raise OverflowError(
            f"message id {ledger}:{entry}:{batch} has no number: a ledger may have {_ENTRIES} entries"
            f" (managedLedgerMaxEntriesPerLedger), a batch {_BATCHED} messages"
        )
    return ledger << (_ENTRY_BITS + _BATCH_BITS) | entry << _BATCH_BITS | (batch + 1)


def message_id(offset: int) -> MessageIdParts:
    """Return the message id that ``offset_of`` has turned into this number."""
    above, batch = divmod(offset, 1 << _BATCH_BITS)
    ledger, entry = divmod(above, _ENTRIES)
    return MessageIdParts(ledger, entry, batch - 1)


class MessageRange(msgspec.Struct, frozen=True):
    """The messages of one partition from ``start`` to before ``end``.

    Attributes:
        topic: The full name of the topic.
        partition: The number of the partition.
        wire: The name that Pulsar gives the partition.
        start: The first offset.
        end: The first offset that is not read.
    """

    topic: str
    partition: int
    wire: str
    start: int
    end: int


def batches(options: Options, piece: MessageRange) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range as batches with the columns RAW.

    Errors of the client are passed on, and Spark then runs the task again.
    """
    rows = records(options, piece)
    while some := list(islice(rows, BATCH)):
        yield _batch(options, piece, some)


def records(options: Options, piece: MessageRange) -> Iterator[Row]:
    """Yield every message of the range in order."""
    import pulsar  # noqa: PLC0415 - imported in a worker

    copies = _copies(options)  # the files must exist as long as the client
    client = _client(options, copies.pems)
    try:
        first = message_id(piece.start)
        reader = client.create_reader(
            piece.wire,
            pulsar.MessageId(-1, first.ledger, first.entry, -1),  # the start of the batch
            start_message_id_inclusive=True,
        )
        while reader.has_message_available():
            message = reader.read_next(WITHIN)
            at = message.message_id()
            offset = offset_of(at.ledger_id(), at.entry_id(), at.batch_index())
            if offset >= piece.end:
                return
            if offset >= piece.start:
                yield _row(offset, message)
    finally:
        client.close()


def _row(offset: int, message: Any) -> Row:
    from app.bindings.pulsar_properties import (  # noqa: PLC0415
        KEY_ENCODING,
        PulsarMessage,
        from_message,
    )

    properties, key = message.properties(), message.partition_key()
    record = from_message(
        PulsarMessage(
            properties,
            key if key or KEY_ENCODING in properties else None,
            None if message.has_null_value() else message.data(),
        )
    )
    return offset, message.publish_timestamp(), record.key, record.body, record.headers


def _batch(options: Options, piece: MessageRange, rows: list[Row]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415

    offsets, times, keys, values, headers = zip(*rows, strict=True)
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    columns = {
        "broker": pa.array([options.name] * len(rows), pa.string()),
        "topic": pa.array([piece.topic] * len(rows), pa.string()),
        "partition": pa.array([piece.partition] * len(rows), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "record_time": pa.array([each * 1000 for each in times], pa.timestamp("us", "UTC")),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(headers, pa.list_(header)),
    }
    return pa.RecordBatch.from_pydict(columns)


def _copies(options: Options) -> Copies:
    """Return copies of the TLS files without pass phrases. For a pass phrase, the library would ask
    at a terminal.

    Raises:
        SetupError: The files cannot be used.
    """
    pems = Pems(
        setting=f"brokers.{options.name}.security.tls",
        cert=_path(options.tls_certificate),
        key=_path(options.tls_key),
        ca=_path(options.tls_ca),
    )
    try:
        return Copies(pems)
    except OSError as error:
        raise pems.refusal(error) from error


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _client(options: Options, tls: Pems) -> Any:
    import pulsar  # noqa: PLC0415

    return pulsar.Client(
        options.service_url,
        authentication=_authentication(options, tls),
        io_threads=1,
        message_listener_threads=1,
        stats_interval_in_seconds=0,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        tls_validate_hostname=options.tls_verify_host,
        # By default the library uses its own list of authorities, not that of the system.
        tls_trust_certs_file_path=_text(tls.ca) or ssl.get_default_verify_paths().cafile,
        tls_certificate_file_path=_text(tls.cert),
        tls_private_key_file_path=_text(tls.key),
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _authentication(options: Options, tls: Pems) -> Any:
    import pulsar  # noqa: PLC0415

    if options.token is not None:
        return pulsar.AuthenticationToken(options.token)
    if options.oauth2_issuer_url is not None:
        credentials = {
            "type": "client_credentials",
            "issuer_url": options.oauth2_issuer_url,
            "private_key": options.oauth2_credentials,
            "audience": options.oauth2_audience,
            "scope": options.oauth2_scope,
        }
        text = msgspec.json.encode({key: value for key, value in credentials.items() if value})
        return pulsar.AuthenticationOauth2(text.decode())
    if tls.cert is not None:
        return pulsar.AuthenticationTLS(str(tls.cert), str(tls.key))
    return None

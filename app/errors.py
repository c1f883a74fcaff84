"""The expected errors of Skybridge, as one tree of classes: who is at fault, and whether a retry helps.

::

    SkybridgeError
    ├─ SenderError            the sender's fault: HTTP 4xx, or a dead letter on the way out
    │  └─ InvalidEvent        400, with every fault of the event
    ├─ BrokerError            a broker failed; a retry helps if ``retryable``
    │  ├─ BrokerUnavailable   503: cannot be reached, or refuses for now
    │  │  ├─ PublishUnknown   503: timed out; the event may or may not be stored
    │  │  ├─ UnclearRefusal   503: refused, and the cause may be the record or the broker
    │  │  └─ BoundReached     503: a limit of Skybridge is reached
    │  └─ BrokerRefused       500: refuses again until a person changes something; 413 or 422 if
    │                         the record itself is at fault (``of_record``)
    ├─ KeyMapperFailed        503: the operator's own key mapper raised, or returned no key
    ├─ StoreUnavailable       the store cannot be read or written for now; every write may be repeated
    ├─ StaleOwner             a former owner of a partition tried to write
    ├─ PositionOutOfRange     a position that the log does not have, or not yet
    └─ SetupError             at start-up: names the setting and the cure
       ├─ TopicsMissing       topics that a job reads do not exist, perhaps for a moment
       └─ LakeUnavailable     the catalog, the storage or a class of the lake is missing for now

Any other exception that reaches the top is a bug.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from app.problems import ProblemCode


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault of a request or an event.

    Attributes:
        code: A stable name in kebab-case for programs, such as ``missing-attribute``.
        detail: One sentence for a person, without secrets and with the offending value clipped.
        at: The place: ``header ce-time``, a JSON Pointer such as ``/time``, or ``query key``.
        rule: The broken clause, as numbered in docs/conformance.md.
        index: The position in a batch, counted from 0; None outside batches.
    """

    code: str
    detail: str
    at: str = ""
    rule: str = ""
    index: int | None = None


class SkybridgeError(Exception):
    """Base class of all expected errors. A log needs no traceback of an error with ``expected``."""

    expected = True


class SenderError(SkybridgeError):
    """The request itself is at fault, and the same bytes will always be refused.

    ``status`` is the HTTP status of the answer. ``code`` is the code of the problem, and ``title`` is its text for a
    person.
    """

    def __init__(
        self,
        title: str,
        *,
        status: int = 400,
        code: ProblemCode = "bad-request",
        faults: Sequence[Fault] = (),
    ) -> None:
        super().__init__(title)
        self.title = title
        self.status = status
        self.code = code
        self.faults = tuple(faults)

    def __str__(self) -> str:
        return "; ".join([self.title, *(fault.detail for fault in self.faults)])


class InvalidEvent(SenderError):
    """An event is not a valid CloudEvent (HTTP 400). The error has every fault at once."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("Not a valid CloudEvent", code="invalid-event", faults=faults)


class BrokerError(SkybridgeError):
    """A broker did not do what was requested.

    ``retryable`` is True if the same request may succeed later. ``retry_after`` is the wait in seconds. If it
    is None, the caller chooses the wait.
    """

    retryable = False
    status = 500
    code: ProblemCode = "broker-refused"

    def __init__(self, message: str, *, broker: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.broker = broker
        self.retry_after = retry_after

    @property
    def problem(self) -> ProblemCode:
        """Return the code of the problem with which a listener answers."""
        return self.code


class BrokerUnavailable(BrokerError):
    """The broker cannot be reached, or refuses for now. It is not known that any record was stored."""

    retryable = True
    status = 503
    code: ProblemCode = "broker-unavailable"


class PublishUnknown(BrokerUnavailable):
    """The broker did not answer in time. The event may or may not be stored, and Skybridge never
    sends it again.
    """

    code: ProblemCode = "publish-unknown"


class UnclearRefusal(BrokerUnavailable):
    """The broker refused a record with an error code that leaves open whether a retry helps.

    Only this record is retried, by its own schedule. Other records of the topic may still be accepted.
    """


class BoundReached(BrokerUnavailable):
    """A limit of Skybridge is reached: requests in flight, disk space or rows."""

    code: ProblemCode = "bound-reached"


_PROBLEMS: Mapping[str, ProblemCode] = {
    "unknown-topic": "unknown-topic",
    "not-authorised": "not-authorised",
    "unroutable": "unroutable",
    "record-too-large": "record-too-large",
    "not-capable": "not-capable",
    "unwritable": "unwritable",
    "rejected": "rejected",
}
"""The code of the problem for each kind of refusal. A client of HTTP cannot cause the other kinds."""

_OF_RECORD = frozenset({"record-too-large", "not-capable", "unwritable", "rejected"})


class BrokerRefused(BrokerError):
    """The broker will refuse this request again until a person changes something.

    ``kind`` names the reason:

    =================  ==========================================================================
    unknown-topic      The topic does not exist.
    not-authorised     The credentials lack the right.
    unroutable         No queue of the exchange accepts the record.
    record-too-large   The record is larger than the broker allows.
    not-capable        The broker lacks a feature that the record needs.
    unwritable         The record cannot be a message of this broker.
    rejected           A rule of the topic rejects the key, time or schema of the record.
    other              Another reason.
    =================  ==========================================================================
    """

    def __init__(self, message: str, *, kind: str = "other", broker: str = "") -> None:
        super().__init__(message, broker=broker)
        self.kind = kind

    @property
    def problem(self) -> ProblemCode:
        return _PROBLEMS.get(self.kind, self.code)

    @property
    def of_record(self) -> bool:
        """Return True if the record itself is at fault, so that no retry helps."""
        return self.kind in _OF_RECORD


class KeyMapperFailed(SkybridgeError):
    """A key mapper of the operator raised an exception, or returned a value that is not a key.

    No event of the request is published, and the sender must repeat it after the mapper is
    repaired. ``__cause__`` has the exception for the log; an answer names only its class.
    """

    status = 503
    code: ProblemCode = "key-mapper-failed"


class StoreUnavailable(SkybridgeError):
    """The store did not answer or refused, because of a full disk, a lock or a time-out.

    Whether the write was stored is unknown. The same write may be repeated.
    """


class StoreFull(StoreUnavailable):
    """The store reached its limit of rows. The message stays in its log until the store has room again."""


class VersionConflict(SkybridgeError):
    """Another request has changed an object since the caller read it. ``found`` is the object's present
    version, or 0 if the object is gone.
    """

    def __init__(self, message: str, found: int) -> None:
        super().__init__(message)
        self.found = found


class StaleOwner(SkybridgeError):
    """The store refused a write, because its ownership epoch is no longer the newest."""


class PositionOutOfRange(SkybridgeError):
    """The log does not have the requested position. ``earliest`` and ``latest`` are the positions
    that it has.
    """

    def __init__(self, message: str, *, earliest: str = "", latest: str = "") -> None:
        super().__init__(message)
        self.earliest = earliest
        self.latest = latest


class SetupError(SkybridgeError):
    """The service or a command cannot start.

    ``setting`` is the path of the setting, ``cure`` is what the user must do, and ``line`` is the
    line in the configuration file, or 0.
    """

    def __init__(self, message: str, *, setting: str = "", cure: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.setting = setting
        self.cure = cure
        self.line = line

    def __str__(self) -> str:
        where = f"{self.setting}: " if self.setting else ""
        cure = f" Cure: {self.cure}" if self.cure else ""
        return f"{where}{self.args[0]}{cure}"


class TopicsMissing(SetupError):
    """Topics that a job reads do not exist. A topic that is created again is missing for a moment."""


class LakeUnavailable(SetupError):
    """The catalog or the storage of the lake does not answer, or Java lacks a class for them. The
    same command succeeds after the cure.
    """


class InUse(SetupError):
    """A file is locked by another process, perhaps by the running service."""

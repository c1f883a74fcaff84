"""Every error of Skybridge, drawn once; each answers what a caller must know to act on it.

::

    SkybridgeError
    ├─ SenderError            the sender's fault: HTTP 4xx, or a dead letter on the way out
    │  └─ InvalidEvent        400, carries every fault found, not just the first
    ├─ BrokerError            ours or the broker's; ``retryable`` tells which
    │  ├─ BrokerUnavailable   503: cannot be reached, or refuses for now
    │  │  ├─ PublishUnknown   503: timed out; may or may not be stored (rule 9 of delivery)
    │  │  ├─ UnclearRefusal   503: refused with a code that does not say whether the record is at fault
    │  │  └─ BoundReached     503: a bound of ours is full
    │  └─ BrokerRefused       500: will refuse again until somebody changes something; of the record
    │                         itself (``of_record``) 413 or 422
    ├─ KeyMapperFailed        503: the operator's own key mapper raised, or returned no key
    ├─ StoreUnavailable       the store cannot be read or written for now; every write may be repeated
    ├─ StaleOwner             an owner that lost its partition tried to write
    ├─ PositionOutOfRange     a position that the log no longer, or not yet, holds
    └─ SetupError             at start-up: names the setting and the cure

Anything else that escapes is a bug and may say so.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing wrong with what was sent.

    ``code``    stable, kebab-case: what a program matches on (``missing-attribute``).
    ``detail``  one sentence for a person, without secrets, with the offending value clipped.
    ``at``      where: ``header ce-time``, a JSON Pointer ``/time``, or ``query key``.
    ``rule``    the clause broken, as numbered in docs/conformance.md (``H8``, ``J2``, ``core 1.3``).
    ``index``   position in a batch, counted from 0; None outside batches.
    """

    code: str
    detail: str
    at: str = ""
    rule: str = ""
    index: int | None = None


class SkybridgeError(Exception):
    """Root of every expected error. ``expected``: a log needs no traceback of it (``telemetry.tasks``)."""

    expected = True


class SenderError(SkybridgeError):
    """The request itself is at fault; the same bytes will always be refused.

    ``status`` is the HTTP answer, ``code`` the last part of the problem type
    (``urn:skybridge:problem:<code>``), ``title`` its human name.
    """

    def __init__(
        self,
        title: str,
        *,
        status: int = 400,
        code: str = "bad-request",
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
    """Not a valid CloudEvent: carries every fault at once (HTTP 400)."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("Not a valid CloudEvent", code="invalid-event", faults=faults)


class BrokerError(SkybridgeError):
    """A broker did not do what was asked. ``retryable``: the same request may succeed later."""

    retryable = False
    status = 500
    code = "broker-refused"

    def __init__(self, message: str, *, broker: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.broker = broker
        self.retry_after = retry_after  # seconds; None: the caller's default


class BrokerUnavailable(BrokerError):
    """The broker cannot be reached or refuses for now; nothing is known to be stored."""

    retryable = True
    status = 503
    code = "broker-unavailable"


class PublishUnknown(BrokerUnavailable):
    """No answer in time: the event may or may not be stored. Never resent by us (rule 9)."""

    code = "publish-unknown"


class UnclearRefusal(BrokerUnavailable):
    """The broker refused a record with a code that says neither "later" nor "never". The record is retried by
    its own schedule, because the others of its topic may be stored."""


class BoundReached(BrokerUnavailable):
    """One of our own bounds is full: in flight, disk, rows."""

    code = "bound-reached"


_OF_RECORD = frozenset({"record-too-large", "not-capable", "unwritable", "rejected"})


class BrokerRefused(BrokerError):
    """The broker will refuse this again until a person changes something.

    ``kind``: ``unknown-topic``, ``record-too-large``, ``not-authorised``, ``not-capable``,
    ``unroutable`` (the exchange is there, and nothing behind it takes the record), ``unwritable`` (the
    record cannot be a message of that broker), ``rejected`` (a rule of the topic rejects this record: its
    key, time or schema, or a policy), ``other``.
    """

    def __init__(self, message: str, *, kind: str = "other", broker: str = "") -> None:
        super().__init__(message, broker=broker)
        self.kind = kind

    @property
    def of_record(self) -> bool:
        """Whether the record itself is what cannot be taken: no time will mend it."""
        return self.kind in _OF_RECORD


class KeyMapperFailed(SkybridgeError):
    """A key mapper that an operator registered raised, or returned what is no key. Nothing of the
    request is published; the sender keeps its event until the mapper is mended. ``__cause__`` is what
    it raised, for the log: an answer names its class only.
    """

    status = 503
    code = "key-mapper-failed"


class StoreUnavailable(SkybridgeError):
    """The store did not answer or refused: a full disk, a lock, a time-out. Nothing is finished by
    it; the same write may be repeated, whatever became of the first."""


class StoreFull(StoreUnavailable):
    """A bound on rows is reached (rule 8): what would be stored waits where it is."""


class VersionConflict(SkybridgeError):
    """Somebody else changed it in between. ``found``: the version there is now, 0 for none."""

    def __init__(self, message: str, found: int) -> None:
        super().__init__(message)
        self.found = found


class StaleOwner(SkybridgeError):
    """A write carried an ownership epoch that is no longer the newest: it was refused."""


class PositionOutOfRange(SkybridgeError):
    """A position that the log does not hold. ``earliest`` and ``latest`` say what it does hold."""

    def __init__(self, message: str, *, earliest: str = "", latest: str = "") -> None:
        super().__init__(message)
        self.earliest = earliest
        self.latest = latest


class SetupError(SkybridgeError):
    """Raised at start-up only. ``setting`` is the path in the configuration, ``cure`` what to do."""

    def __init__(self, message: str, *, setting: str = "", cure: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.setting = setting
        self.cure = cure
        self.line = line

    def __str__(self) -> str:
        where = f"{self.setting}: " if self.setting else ""
        cure = f" Cure: {self.cure}" if self.cure else ""
        return f"{where}{self.args[0]}{cure}"


class InUse(SetupError):
    """Another process, perhaps the service that is asked about, has a file for itself."""

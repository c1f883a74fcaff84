"""Sign requests with the current signing keys of a subscription."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from app.bindings.http import HttpMessage
from app.bindings.record import Decoded
from app.delivery.signing import (
    NAMES,
    Signer,
    joint_id,
    signature_values,
    signer,
    webhook_id,
)
from app.event.memo import Memo
from app.model.signing_key import read_key
from app.sinks.secrets import LiveSecret

_NAMES: Memo[tuple[str, ...], tuple[str, ...]] = Memo(lambda names: names + NAMES)
_log = logging.getLogger(__name__)


class Signatures:
    """The signer of the requests of one subscription.

    ``secrets`` lists the signing secrets, the current one first. They are read again at most once a
    second. ``now`` is the wall clock, in seconds since the epoch.
    """

    def __init__(self, secrets: Sequence[LiveSecret], now: Callable[[], float]) -> None:
        self._secrets = tuple(secrets)
        self._now = now
        self._texts: tuple[str, ...] = ()
        self._signers: tuple[Signer, ...] = ()
        self._second, self._timestamp = 0, "0"
        self._set_keys(self._current())

    def signed(self, message: HttpMessage, events: Sequence[Decoded]) -> HttpMessage:
        """Return the request with its signature headers.

        The id is the same for every attempt at these events. The timestamp is that of this attempt.
        """
        second = int(self._now())
        if second != self._second:
            self._start_second(second)
        identity = joint_id([webhook_id(decoded) for decoded in events])
        values = signature_values(self._signers, identity, self._timestamp, message.body)
        return HttpMessage(_NAMES[message.names], message.values + values, message.body)

    def _start_second(self, second: int) -> None:
        self._second, self._timestamp = second, str(second)
        texts = self._current()
        if texts != self._texts:
            self._set_keys(texts)

    def _current(self) -> tuple[str, ...]:
        return tuple([secret() for secret in self._secrets])

    def _set_keys(self, texts: tuple[str, ...]) -> None:
        """Use new signing secrets. If a key is invalid, log that and keep the old keys. At the
        start there are none, so raise ValueError."""
        try:
            self._signers = tuple(signer(read_key(text)) for text in texts)
        except ValueError as error:
            if not self._signers:
                raise
            _log.error("a new signing key is invalid, the old keys stay in use: it %s", error)
        self._texts = texts

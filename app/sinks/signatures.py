"""Signs requests with the keys of a subscription as they are now."""

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
    """``secrets``: the current one first, looked at again in each second. ``now``: the wall clock."""

    def __init__(self, secrets: Sequence[LiveSecret], now: Callable[[], float]) -> None:
        self._secrets = tuple(secrets)
        self._now = now
        self._texts: tuple[str, ...] = ()
        self._signers: tuple[Signer, ...] = ()
        self._second, self._moment = 0, "0"
        self._take(self._current())

    def signed(self, message: HttpMessage, events: Sequence[Decoded]) -> HttpMessage:
        """The request of these events with its signature: the same identity on every attempt, the time of this
        one."""
        second = int(self._now())
        if second != self._second:
            self._begin(second)
        identity = joint_id([webhook_id(decoded) for decoded in events])
        values = signature_values(self._signers, identity, self._moment, message.body)
        return HttpMessage(_NAMES[message.names], message.values + values, message.body)

    def _begin(self, second: int) -> None:
        self._second, self._moment = second, str(second)
        texts = self._current()
        if texts != self._texts:
            self._take(texts)

    def _current(self) -> tuple[str, ...]:
        return tuple([secret() for secret in self._secrets])

    def _take(self, texts: tuple[str, ...]) -> None:
        """A file that holds no key changes nothing, but is said; at the start it is refused."""
        try:
            self._signers = tuple(signer(read_key(text)) for text in texts)
        except ValueError as error:
            if not self._signers:
                raise
            _log.error("signing continues with the old keys: a new key %s", error)
        self._texts = texts

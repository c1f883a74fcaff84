"""What a webhook was sent and what it answered, as it may be kept and shown: no credential of ours is in it."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace
from yarl import URL

from app.bindings.forwarding import may_hold_credential
from app.bindings.http import HttpMessage
from app.interfaces import Sent, SinkAnswer
from app.model.secret import HIDDEN
from app.sinks.credentials import Shown
from app.sinks.masks import QUOTED, Mask

_ON_THE_WIRE = {"timeout", "reset", "reply"}  # faults of a request that was sent, or may have been
_NOTHING = Mask()


class Telling(NamedTuple):
    """``all``: also of attempts that delivered. ``bodies``: bytes of a body that are kept."""

    all: bool = False
    bodies: int = 4096


TELLING = Telling()


def told(
    answer: SinkAnswer, url: str, message: HttpMessage, shown: Shown | None, bodies: int
) -> SinkAnswer:
    """The answer with what was sent. ``url``: without the access token that may have been added to it. ``shown``:
    the credentials of the attempt."""
    mask = _NOTHING if shown is None else shown.mask
    answer = mask.on(answer, max(QUOTED, bodies))
    if answer.status is None and answer.fault not in _ON_THE_WIRE:
        return answer
    target = URL(url)
    own = () if shown is None else shown.headers
    hidden = tuple((name, HIDDEN) for name, _ in own)
    headers = (("Host", target.host_port_subcomponent or ""), *message.headers, *hidden)
    if shown is not None and shown.access_token:
        target = target.update_query(access_token=HIDDEN)
    line = f"POST {target.path_qs} HTTP/1.1"
    return replace(
        answer,
        headers=tuple((name, _safe(mask, name, value)) for name, value in answer.headers),
        sent=Sent(line, headers, message.body),
    )


def _safe(mask: Mask, name: bytes, value: bytes) -> bytes:
    """A header of the answer: what the target set is its own secret, and it may echo ours."""
    if may_hold_credential(name.decode("latin-1").lower()):
        return HIDDEN.encode()
    return mask(value.decode("utf-8", "replace")).encode()

"""How a subscription wants its events written, and the answer for what cannot be written so."""

from __future__ import annotations

from app.bindings.transcode import Writing
from app.interfaces import SinkAnswer
from app.model.subscription import Subscription
from app.routing.plan import Manner

UNWRITABLE = "unwritable"
USUAL = Manner()


def writing_of(subscription: Subscription, manner: Manner = USUAL) -> Writing:
    """``manner``: of the broker that it goes to, where it goes to one."""
    return Writing(
        mode=subscription.content_mode,
        format=subscription.format,
        version=subscription.specversion,
        names=manner.names,
        strings=manner.strings,
    )


def unwritable(why: str) -> SinkAnswer:
    """Waiting will not change that."""
    return SinkAnswer(None, UNWRITABLE, why)

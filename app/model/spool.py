"""The spool of a route: where its events wait while the target is away, and what belongs to it by name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.model.duration import Size

TOPICS = "__spool."
"""How the name of a spool's topic begins; no route, mirror or client may publish to such a topic."""

_SUBSCRIPTION = "spool:"
_OF_LOG = "@"


class Spool(BaseModel):
    """Events of the route wait on an embedded log while the broker of the target is away."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    broker: Annotated[str, Field(min_length=1)] = Field(
        description="the embedded log that keeps the spool, a name under brokers"
    )
    when: Literal["outage", "always"] = Field(
        "outage",
        description="outage: events are spooled while the target's broker is away; always: every event "
        "goes through the spool",
    )
    max: Annotated[Size, Field(ge=1 << 20)] = Field(
        description="most bytes that may wait, at least 1MiB; beyond, events are answered 503"
    )


def spool_topic(route: str) -> str:
    """On the embedded log."""
    return TOPICS + route


def spooled_route(topic: str) -> str | None:
    """The route whose spool the topic is; None for any other topic."""
    return topic.removeprefix(TOPICS) if topic.startswith(TOPICS) else None


def spool_subscription(route: str, log: str = "") -> str:
    """The subscription that drains the spool. No subscription of a user has a colon in its id. ``log``: the identity
    of the embedded log, where the store has rows of several."""
    return _SUBSCRIPTION + route + (_OF_LOG + log if log else "")


def drained_route(subscription: str) -> str | None:
    """The route whose spool the subscription drains; None for a subscription of a user."""
    if not subscription.startswith(_SUBSCRIPTION):
        return None
    return without_log(subscription).removeprefix(_SUBSCRIPTION)


def without_log(subscription: str) -> str:
    """The id as the embedded log itself knows it: for its group there is one log."""
    return subscription.partition(_OF_LOG)[0]


def group_name(installation: str, subscription: str) -> str:
    """One group a subscription, told apart by installation so that two may share a broker."""
    return f"skybridge.{installation}.{without_log(subscription)}"

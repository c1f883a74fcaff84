"""The spool of a route, where its events wait while the target is unavailable, and the names that belong to it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.model.duration import Size

TOPICS = "__spool."
"""The prefix of spool topics. No route, mirror or client may publish to such a topic."""

_SUBSCRIPTION = "spool:"
_OF_LOG = "@"


class Spool(BaseModel):
    """An embedded log on which the events of a route wait while the target's broker is unavailable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    broker: Annotated[str, Field(min_length=1)] = Field(
        description="name of the embedded log with the spool, under brokers"
    )
    when: Literal["outage", "always"] = Field(
        "outage",
        description="outage: spool events while the target's broker is unavailable; always: every event "
        "goes through the spool",
    )
    max: Annotated[Size, Field(ge=1 << 20)] = Field(
        description="most bytes that may wait, at least 1MiB; above it, events are answered 503"
    )


def spool_topic(route: str) -> str:
    """Return the topic of a route's spool on the embedded log."""
    return TOPICS + route


def spooled_route(topic: str) -> str | None:
    """Return the route whose spool this topic is, or None for any other topic."""
    return topic.removeprefix(TOPICS) if topic.startswith(TOPICS) else None


def spool_subscription(route: str, log: str = "") -> str:
    """Return the id of the subscription that drains a spool. No subscription of a user has a colon in its id.

    Args:
        route: The route of the spool.
        log: The identity of the embedded log, if the store has rows of several logs.
    """
    return _SUBSCRIPTION + route + (_OF_LOG + log if log else "")


def drained_route(subscription: str) -> str | None:
    """Return the route whose spool this subscription drains, or None for a subscription of a user."""
    if not subscription.startswith(_SUBSCRIPTION):
        return None
    return without_log(subscription).removeprefix(_SUBSCRIPTION)


def without_log(subscription: str) -> str:
    """Return the subscription id without the log's identity. The group on the log itself needs none."""
    return subscription.partition(_OF_LOG)[0]


def shared_group_name(installation: str, topic: str) -> str:
    """Return the group of all subscriptions of a topic that share a membership. No id of a user has a colon."""
    return f"skybridge.{installation}.topic:{topic}"


def group_name(installation: str, subscription: str) -> str:
    """Return the group of a subscription. The installation is part of it, so that two installations can share a
    broker.
    """
    return f"skybridge.{installation}.{without_log(subscription)}"

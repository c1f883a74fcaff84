"""The settings of the role ``operator``: which namespaces may declare subscriptions, and what they may name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.model.duration import Count, Duration
from app.model.producer import Patterns
from app.model.route import Name, Strict
from app.model.secret import Token

ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
"""A name of Kubernetes: a label of DNS."""
Host = Annotated[str, Field(pattern=r"^(\*\.)?[^\s/:@?#*]+$|^[0-9A-Fa-f.:]+/\d{1,3}$")]
"""A host, all hosts below a domain (``*.example.com``), or a network."""


class OperatorNamespace(Strict):
    """A namespace whose objects of kind Subscription become subscriptions, and what they may name."""

    name: ObjectName = Field(description="name of the namespace")
    topics: Patterns | tuple[()] = Field(
        (),
        description="topics that its subscriptions may read, and write as sink or dead_letter: a name, BROKER/NAME, or "
        "a prefix with *",
    )
    reply_routes: tuple[Name, ...] = Field(
        (), description="routes that its subscriptions may name as reply"
    )
    hosts: tuple[Host, ...] = Field(
        (),
        description="hosts (*.example.com) and networks that its subscriptions may send to by a URL. Services of the "
        "namespace itself need no entry",
    )
    subscriptions: Annotated[Count, Field(ge=1)] | None = Field(
        None,
        description="most subscriptions of the namespace, with those of deleted objects, which are kept. Without it, one "
        "namespace may use up limits.subscriptions",
    )


class OperatorLease(Strict):
    """The Lease by which one of several operator processes is the leader."""

    name: ObjectName = Field("skybridge-operator", description="name of the Lease")
    namespace: ObjectName | None = Field(
        None, description="namespace of the Lease; without it, the namespace of the pod"
    )
    seconds: Annotated[Count, Field(ge=5, le=300)] = Field(
        10,
        description="seconds after which another process takes the place of a leader that is gone",
    )


class OperatorAdmin(Strict):
    """The admin listener through which the operator writes subscriptions."""

    url: Annotated[str, Field(pattern=r"^https?://[^/?#]+/?$")] = Field(
        description="URL of the admin listener of a gateway or worker"
    )
    token: Token = Field(
        description="a token of server.admin.tokens with owner: kubernetes and the scopes read and configure; "
        'best "${file:/path}"'
    )
    ca: Path | None = Field(
        None, description="PEM file of the certificate authorities of an https URL"
    )


class Operator(Strict):
    """Subscriptions as Kubernetes objects: the settings of ``skybridge operator``."""

    namespaces: Annotated[tuple[OperatorNamespace, ...], Field(min_length=1)] = Field(
        description="namespaces whose objects become subscriptions; no others are read"
    )
    lease: OperatorLease = Field(OperatorLease(), description="how the leader is chosen")
    drain_timeout: Annotated[Duration, Field(gt=0)] = Field(
        "5m",
        validate_default=True,
        description="most time that a deleted object with onDelete: drain waits for its events; then its subscription is "
        "deleted with the rest",
    )
    admin: OperatorAdmin = Field(description="where subscriptions are written")

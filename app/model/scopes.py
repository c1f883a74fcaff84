"""The scopes of the admin API: what a token may do. No scope includes another."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

Scope = Literal["metrics", "read", "data", "pull", "operate", "configure"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
EVERY_SCOPE = frozenset(SCOPES)

MEANINGS: Mapping[Scope, str] = MappingProxyType(
    {
        "metrics": "read the metrics",
        "read": "see state, settings, topics and events that wait, without event data",
        "data": "see event data in the answers of read, and answers of webhooks",
        "pull": "take events of pull subscriptions and finish them; follow the events of a subscription",
        "operate": "pause, resume, test, retry, replay, redrive, resend, discard, publish by hand",
        "configure": "change subscriptions; check, plan and reload the configuration",
    }
)
"""The actions that each scope permits."""

# Names in the audit for callers without a token of server.admin.tokens. No such token may have them.
ALL_SCOPES = "token"  # server.admin.token
ON_LOOPBACK = "loopback"  # no token is configured
BY_SIGNAL, BY_FILE = "signal", "file"  # a reload without a request
RESERVED = frozenset({ALL_SCOPES, ON_LOOPBACK, BY_SIGNAL, BY_FILE})

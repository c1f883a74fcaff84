"""The one builder of configurations for tests: small, valid, and changed where a test needs it.

``configuration`` returns a mapping, ``written`` writes it into a file, and ``loaded`` reads it as
the service does.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.config.load.loader import Loaded

Settings = dict[str, Any]


def configuration(folder: Path, **changes: Any) -> Settings:
    """Return a configuration with one embedded log, one route and a webhook bound to loopback, on
    free ports.

    Args:
        folder: where the log (``folder/log``) and the store (``folder/store.db``) are kept.
        changes: settings by their names, merged as a JSON merge patch (RFC 7396). A mapping changes
            the members that it
            names, and ``None`` removes a member. Any other value replaces the old one.
    """
    return merged(
        {
            "version": 1,
            "server": {"events": {"port": 0}, "admin": {"port": 0}},
            "store": {"kind": "sqlite", "path": str(folder / "store.db")},
            "brokers": {"log": {"kind": "embedded", "path": str(folder / "log")}},
            "routes": [route()],
            "webhooks": {"allow_private": ["127.0.0.0/8"]},
            "timeouts": {"store": "60s", "publish": "60s", "not_ready": "0s", "drain": "5s"},
        },
        changes,
    )


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
    """Return a copy of the settings with the changes merged in as a JSON merge patch."""
    whole = copy.deepcopy(dict(settings))
    for name, value in changes.items():
        if value is None:
            whole.pop(name, None)
        elif isinstance(value, Mapping):
            before = whole.get(name)
            whole[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            whole[name] = copy.deepcopy(value)
    return whole


def route(
    topic: str = "events", *, name: str = "all", broker: str = "log", **more: Any
) -> Settings:
    """Return a route to one topic. Without ``filters`` among ``more`` it takes every event."""
    return {"name": name, "to": {"broker": broker, "topic": topic}, **more}


def subscription(
    name: str,
    sink: str | Mapping[str, Any],
    topic: str = "events",
    *,
    broker: str = "log",
    **more: Any,
) -> Settings:
    """Return a subscription that reads one topic from its earliest event. If its sink is a webhook, the webhook is
    not asked for consent."""
    usual = {"handshake": "off"} if isinstance(sink, str) else {}
    source = {"broker": broker, "topics": [topic]}
    return {"id": name, "source": source, "sink": sink, "start": "earliest", **usual, **more}


def written(settings: Mapping[str, Any], folder: Path) -> Path:
    """Write the settings to ``folder/skybridge.yaml``, one setting a line, and return the path.
    JSON is valid YAML.
    """
    file = folder / "skybridge.yaml"
    file.write_text(json.dumps(settings, indent=1))
    return file


def loaded(file: Path, environ: Mapping[str, str] | None = None) -> Loaded:
    """Load a configuration file as ``skybridge serve`` does. Raises BadConfiguration, which lists
    every error.
    """
    from app.config.load.loader import load

    return load(file, environ or {})

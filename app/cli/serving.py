"""The service behind ``skybridge serve``, and its usual command line read without typer, which the service would keep:
four megabytes and a tenth of a start."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from app.telemetry.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.config.load.finding import Finding
    from app.config.model.config import Config
    from app.features.component import Role
    from app.runtime.service import Service

CONFIG = "SKYBRIDGE_CONFIG"
ROLES: tuple[Role, ...] = ("gateway", "worker")


class Given(NamedTuple):
    config: Path | None
    roles: tuple[Role, ...]


def plain(words: Sequence[str]) -> Given | None:
    """What this command line says. None for one that typer has to read: with another option, or a mistake."""
    file, left = os.environ.get(CONFIG) or None, iter(words)
    roles: list[Role] = []
    for word in left:
        name, equals, value = word.partition("=")
        if name not in {"--config", "--role", "-c"} or (equals and name == "-c"):
            return None
        value = value if equals else next(left, "")
        if not value or value.startswith("-"):
            return None
        if name != "--role":
            file = value
        elif (role := _role(value)) is None:
            return None
        else:
            roles.append(role)
    return Given(None if file is None else Path(file), tuple(roles) or ROLES)


def _role(text: str) -> Role | None:
    return next((each for each in ROLES if each == text), None)


def serve(given: Given, announce: Callable[[Service], None] | None = None) -> None:
    """Until it is told to leave. ``announce``: in place of words for a person."""
    from app.config.check.source import Source
    from app.runtime.run import run

    source = Source(given.config, dict(os.environ))
    loaded, findings = source.judge(source.read())
    _warn(findings)
    run(loaded, roles=given.roles, announce=announce or _announce, source=source)


def _warn(findings: Sequence[Finding]) -> None:
    for finding in findings:
        print(_styled(str(finding), "33"), file=sys.stderr)


def console_url(service: Service) -> str | None:
    """None where there is none, or it is not built."""
    if not service.console.shown or service.console.missing:
        return None
    return f"{service.admin_url}/console/"


def _announce(service: Service) -> None:
    """Without rich, as all else here: the service would keep its memory for these lines."""
    from app.cli.trying import example

    config = service.config
    if service.events_url:
        _tell("events", f"{service.events_url}/events")
    _tell("admin", f"{service.admin_url}  (status, metrics, docs)")
    if url := console_url(service):
        _tell("console", url)
    elif service.console.shown:
        _tell("console", service.console.missing)
    for line in _routes(config) if service.events_url else ():
        print(printable(line), file=sys.stderr)
    for line in _subscriptions(config) if "worker" in service.roles else ():
        print(printable(line), file=sys.stderr)
    if service.events_url and (request := example(config, service.events_url)):
        print(file=sys.stderr)
        _tell("try", f"{request}\n")


def _tell(name: str, text: str) -> None:
    print(f"{_styled(f'{name:<7}', '1')} {text}", file=sys.stderr)


def _styled(text: str, style: str) -> str:
    """On a terminal. ``style``: bold, or a colour, by its number."""
    plainly = not sys.stderr.isatty() or os.environ.get("NO_COLOR")
    return text if plainly else f"\x1b[{style}m{text}\x1b[0m"


def _routes(config: Config) -> list[str]:
    return [
        f"route   {route.name} -> " + ", ".join(f"{to.broker}/{to.place}" for to in route.to)
        for route in config.routes
    ]


def _subscriptions(config: Config) -> list[str]:
    return [
        f"to      {each.id}: {each.source.broker}/{','.join(each.source.topics)} -> {each.sink_text}"
        for each in config.subscriptions
    ]

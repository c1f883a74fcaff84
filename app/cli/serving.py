"""Run the service of ``skybridge serve``. Parse a command line with only --config and --role
without typer.

Typer would stay in the memory of the service. It needs 4 MB, and a tenth of the start time.
"""

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


class ServeArguments(NamedTuple):
    """The options of ``skybridge serve``: the configuration file and the roles."""

    config: Path | None
    roles: tuple[Role, ...]


def parse_plain_arguments(words: Sequence[str]) -> ServeArguments | None:
    """Parse a command line with only the options --config and --role. Return None for any other
    command line, which typer must parse.
    """
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
    return ServeArguments(None if file is None else Path(file), tuple(roles) or ROLES)


def _role(text: str) -> Role | None:
    return next((each for each in ROLES if each == text), None)


def serve(given: ServeArguments, announce: Callable[[Service], None] | None = None) -> None:
    """Run the service until a signal stops it. If ``announce`` is set, call it at the start instead
    of printing the start message.
    """
    from app.config.check.source import ConfigSource
    from app.runtime.run import run

    source = ConfigSource(given.config, dict(os.environ))
    loaded, findings = source.judge(source.read())
    _warn(findings)
    warnings = [str(each) for each in findings]
    run(
        loaded,
        roles=given.roles,
        announce=announce or _announce,
        source=source,
        warnings=warnings,
    )


def _warn(findings: Sequence[Finding]) -> None:
    """Print the warnings of the configuration."""
    for finding in findings:
        print(_styled(str(finding), "33"), file=sys.stderr)


def console_url(service: Service) -> str | None:
    """Return the URL of the web console, or None if the console is switched off or not built."""
    if not service.console.shown or service.console.missing:
        return None
    return f"{service.admin_url}/console/"


def _announce(service: Service) -> None:
    """Print the addresses, routes and subscriptions. Rich is not used, because the service would
    keep its memory.
    """
    from app.cli.example_request import example_command

    config = service.config
    if service.events_url:
        _print_line("events", f"{service.events_url}/events")
    _print_line("admin", f"{service.admin_url}  (status, metrics, docs)")
    if url := console_url(service):
        _print_line("console", url)
    elif service.console.shown:
        _print_line("console", service.console.missing)
    for line in _routes(config) if service.events_url else ():
        print(printable(line), file=sys.stderr)
    for line in _subscriptions(config) if "worker" in service.roles else ():
        print(printable(line), file=sys.stderr)
    if service.events_url and (request := example_command(config, service.events_url)):
        print(file=sys.stderr)
        _print_line("try", f"{request}\n")


def _print_line(name: str, text: str) -> None:
    print(f"{_styled(f'{name:<7}', '1')} {text}", file=sys.stderr)


def _styled(text: str, style: str) -> str:
    """Return the text with a terminal style, given by its SGR number, if standard error is a
    terminal.
    """
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

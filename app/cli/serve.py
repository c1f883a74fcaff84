"""``skybridge serve``: the service itself."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.config.finding import Finding
    from app.config.model import Config
    from app.runtime.service import Service


class RoleName(StrEnum):
    gateway = "gateway"
    worker = "worker"


@verb(
    "serve",
    "skybridge serve                               # the embedded log in ./skybridge-data",
    "skybridge serve --config skybridge.yaml",
    "skybridge serve --config skybridge.yaml --role gateway",
    "skybridge serve --config skybridge.yaml --role gateway   # any number: docs/operations.md",
    "SKYBRIDGE_SERVER__EVENTS__PORT=9090 skybridge serve",
)
def run(
    config: ConfigFile = None,
    role: Annotated[
        list[RoleName] | None, option("Run only this role (may be given twice); both by default.")
    ] = None,
    as_json: Annotated[
        bool, option("Print the addresses of the listeners as one JSON object.", "--json")
    ] = False,
) -> None:
    """Accept events, store them, deliver them.

    SIGTERM or Ctrl+C stops it in order: not ready, nothing new, finish or release, commit. A second
    signal stops it at once; no acknowledged event is lost in both cases. SIGHUP, or a change of the
    file, reloads the configuration without a restart; skybridge plan shows what a reload would
    change.
    """
    import os

    from app.config.source import Source
    from app.runtime.run import run as serve

    source = Source(config, dict(os.environ))
    loaded, findings = source.judge(source.read())
    _warn(findings)
    announce = _announce_json if as_json else _announce
    roles = [each.value for each in role] if role else ["gateway", "worker"]
    serve(loaded, roles=roles, announce=announce, source=source)  # type: ignore[arg-type]  # RoleName's values


def _warn(findings: Sequence[Finding]) -> None:
    from rich.markup import escape

    for finding in findings:
        printing.err().print(f"[yellow]{escape(str(finding))}[/]")


def _announce_json(service: Service) -> None:
    printing.json_line(
        {
            "roles": service.parts.roles,
            "events": f"{service.events_url}/events" if service.events_url else None,
            "admin": service.admin_url,
            "console": console_url(service),
        }
    )


def console_url(service: Service) -> str | None:
    """None where there is none, or it is not built."""
    if not service.console.shown or service.console.missing:
        return None
    return f"{service.admin_url}/console/"


def _announce(service: Service) -> None:
    from rich.markup import escape

    from app.cli.trying import example

    console = printing.err()
    config = service.parts.config
    if service.events_url:
        console.print(f"[bold]events[/]  {service.events_url}/events")
    console.print(f"[bold]admin[/]   {service.admin_url}  (status, metrics, docs)")
    if url := console_url(service):
        console.print(f"[bold]console[/] {url}")
    elif service.console.shown:
        console.print(f"[bold]console[/] {escape(service.console.missing)}")
    for line in _routes(config) if service.events_url else ():
        console.print(escape(line))
    for line in _subscriptions(config) if service.parts.supervisor else ():
        console.print(escape(line))
    if service.events_url and (request := example(config, service.events_url)):
        console.print(f"\n[bold]try[/]     {escape(request)}\n")


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

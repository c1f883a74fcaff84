"""``skybridge serve`` runs the service."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.serving import ROLES, WAITS, WAITS_VARIABLE, ServeArguments, console_url, serve
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from app.runtime.service import Service


class RoleName(StrEnum):
    """The roles that ``--role`` accepts."""

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
        list[RoleName] | None, option("Run only this role; may be repeated; by default both.")
    ] = None,
    as_json: Annotated[
        bool, option("Print the addresses of the listeners as one JSON object.", "--json")
    ] = False,
    waits: Annotated[
        bool,
        option(
            "If the configuration has a fault, wait for a corrected file instead of ending. Probes report the fault.",
            WAITS,
            envvar=WAITS_VARIABLE,
        ),
    ] = False,
) -> None:
    """Run the service: accept, store and deliver events.

    SIGTERM or Ctrl+C stops the service in order: it reports not ready, accepts nothing new,
    finishes or releases deliveries, and commits. A second signal stops it at once; no acknowledged
    event is lost in either case. SIGHUP, or a change of the file, reloads the configuration without
    a restart. skybridge plan shows what a reload would change.
    """
    roles = tuple(each for each in ROLES if RoleName(each) in (role or [*RoleName]))
    serve(ServeArguments(config, roles, waits), _announce_json if as_json else None)


def _announce_json(service: Service) -> None:
    from app.config.check.paths import named_paths

    printing.json_line(
        {
            "roles": service.roles,
            "events": f"{service.events_url}/events" if service.events_url else None,
            "admin": service.admin_url,
            "console": console_url(service),
            "console_missing": service.console.missing or None,
            "paths": [str(each.path) for each in named_paths(service.config)],
        }
    )

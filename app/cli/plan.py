"""``skybridge plan`` shows what a reload would change, setting by setting, without reloading."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, printing
from app.cli.admin_client import AdminClient
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from app.config.diff.difference import Difference


@verb(
    "plan",
    "skybridge plan skybridge.yaml                       # against the service that runs here",
    "skybridge plan skybridge.yaml --server https://bridge.example:8081",
    "skybridge plan new.yaml --old skybridge.yaml        # two files, no service needed",
    "skybridge plan new.yaml --json | jq '.changes[].setting'",
    json="Print one JSON object.",
)
def run(
    file: Annotated[Path, typer.Argument(help="Compare this new configuration file.")],
    old: Annotated[
        Path | None,
        option(
            "Compare the new configuration with this file; by default with the running service."
        ),
    ] = None,
    *,
    service: AdminClient,
) -> None:
    """Show what a reload to FILE would change.

    The output has the changed settings with their old and new values, and the subscriptions that
    would restart at their position. It also names the changes that need a restart of the service.
    By default FILE is compared with a running service. Secrets are never shown, and secrets of a
    running service are not compared.

    Exits with 0 for no change and 4 for changes. Exits with 5 if a change needs a restart, because
    a reload would be refused. Exits with 2 if FILE is invalid.
    """
    import os

    from app.config.check.source import ConfigSource
    from app.config.diff.difference import difference, without_overrides
    from app.config.diff.shown import digest_of, view_of, view_of_shown

    source = ConfigSource(file, os.environ)
    new = view_of(source.judge(source.read())[0])
    if old is not None:
        other = ConfigSource(old, os.environ)
        before, against = view_of(other.load(other.read())), str(old)
        found = difference(before, new)
    else:
        running_service = service.get("/v1/config")
        before, against = view_of_shown(running_service["configuration"]), service.server
        found = without_overrides(difference(before, view_of_shown(new.shown)))
    digests = (digest_of(before.shown), digest_of(new.shown))
    if service.as_json:
        _print_json(found, against, digests)
    else:
        _print(found, f"{file} against {against}", digests, running=old is None)
    if code := _CODES[found.result]:
        raise typer.Exit(code)


_CODES = {"no-change": exits.OK, "changes": exits.CHANGES, "needs-restart": exits.RESTART}


def _print(found: Difference, what: str, digests: tuple[str, str], *, running: bool) -> None:
    count = len(found.changes)
    said = f"{count} change{'' if count == 1 else 's'}" if count else "no change"
    printing.err().print(f"{what}: {said}, digest {' -> '.join(dict.fromkeys(digests))}")
    for each in found.changes:
        printing.text_line(f"{each.effect:8}{each}")
    for name in found.restarted:
        printing.text_line(f"reopen  subscription {name} ends and continues at its position")
    for warning in found.warnings:
        printing.text_line(f"warning {warning}")
    console = printing.err()
    if found.restarts:
        count = len(found.restarts)
        console.print(
            f"A reload would be refused: {count} change{'s' if count > 1 else ''} need"
            f"{'' if count > 1 else 's'} a restart."
        )
    elif found.changes:
        console.print("A reload applies this without a restart.")
    if running:
        console.print("Secrets of a running service are not compared.")


def _print_json(found: Difference, against: str, digests: tuple[str, str]) -> None:
    import msgspec

    printing.json_line(
        {
            "result": found.result,
            "against": against,
            "digest": {"old": digests[0], "new": digests[1]},
            "changes": msgspec.to_builtins(found.changes),
            "restarted": found.restarted,
            "warnings": found.warnings,
        }
    )

"""``skybridge plan``: what a reload would change, by name, before anybody asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, printing
from app.cli.admin_client import Service
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from app.config.diff.difference import Difference


@verb(
    "plan",
    "skybridge plan skybridge.yaml                       # against the service that runs here",
    "skybridge plan skybridge.yaml --server https://bridge.example:8081",
    "skybridge plan new.yaml --old skybridge.yaml        # two files, no service needed",
    "skybridge plan new.yaml --json | jq '.changes[].setting'",
    json="One JSON object.",
)
def run(
    file: Annotated[Path, typer.Argument(help="The new configuration.")],
    old: Annotated[Path | None, option("Compare with this file instead of a service.")] = None,
    *,
    service: Service,
) -> None:
    """Show what a reload to FILE would change: the settings with old and new values, the subscriptions that
    would end and continue at their position, and the changes that need a restart.

    Against a running service it shows the difference to the file. Secrets are never shown, and secrets of
    a running service are not compared. Exits with 0 for no change, 4 for changes, 5 when one needs a restart (a
    reload would be refused), 2 when FILE is invalid.
    """
    import os

    from app.config.check.source import Source
    from app.config.diff.difference import difference, without_overrides
    from app.config.diff.shown import digest_of, view_of, view_of_shown

    source = Source(file, os.environ)
    new = view_of(source.judge(source.read())[0])
    if old is not None:
        other = Source(old, os.environ)
        before, against = view_of(other.load(other.read())), str(old)
        found = difference(before, new)
    else:
        told = service.get("/v1/config")
        before, against = view_of_shown(told["configuration"]), service.server
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

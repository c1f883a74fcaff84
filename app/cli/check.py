"""``skybridge check`` prints every error and warning of a configuration, with its line and its
cure.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, printing
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.config.load.finding import Finding
    from app.config.load.loader import Loaded
    from app.features.checks.connections import Connected

CONNECT_TIMEOUT = 10.0  # seconds per broker


@verb(
    "check",
    "skybridge check skybridge.yaml",
    "skybridge check skybridge.yaml --connect    # also ask the store and each broker",
    "skybridge check skybridge.yaml --json | jq .setting",
)
def run(
    file: Annotated[Path, typer.Argument(help="Check this configuration file.")],
    connect: Annotated[
        bool, option("Also connect to the store and to each broker, for up to 10 s each.")
    ] = False,
    as_json: Annotated[bool, option("Print one JSON object per finding.", "--json")] = False,
) -> None:
    """Check a configuration file for errors and warnings.

    Each finding has its line, the setting, the problem and the cure. Exits with 1 if there is an
    error; warnings alone exit with 0. Secrets are never printed.
    """
    if report(file, connect=connect, as_json=as_json):
        raise typer.Exit(exits.FAILED)


def report(file: Path, *, connect: bool = False, as_json: bool = False) -> int:
    """Print every finding of a configuration file, and return the number of errors."""
    from app.config.check.paths import named_paths

    loaded, findings = _findings(file)
    well: Sequence[str] = ()
    if connect and loaded is not None:
        found, well = _connect(loaded)
        findings += found
    for finding in findings:
        (_print_json if as_json else _print)(file, finding)
    errors = sum(finding.level == "error" for finding in findings)
    if not as_json:
        paths = named_paths(loaded.config) if loaded is not None else ()
        for line in (*map(str, paths), *well):
            printing.err().print(printing.escape_line(line), markup=False)
        warnings = len(findings) - errors
        counts = f"{printing.counted(errors, 'error')}, {printing.counted(warnings, 'warning')}"
        printing.err().print(f"{printing.escape_line(str(file))}: {counts}")
    return errors


def _findings(file: Path) -> tuple[Loaded | None, list[Finding]]:
    """Return the configuration, or None if it is invalid, and its findings."""
    import os

    from app.config.check.source import ConfigSource
    from app.config.load.finding import BadConfiguration

    source = ConfigSource(file, os.environ)
    try:
        return source.findings(source.read())
    except BadConfiguration as unreadable:
        return None, [*unreadable.findings]


def _connect(loaded: Loaded) -> Connected:
    """Connect to the store and the brokers. Return a finding for each that failed, and a line of
    text for each that answered.
    """
    import asyncio

    from app.features.checks.connections import check_connections

    return asyncio.run(check_connections(loaded, CONNECT_TIMEOUT))


def _print(file: Path, finding: Finding) -> None:
    from rich.markup import escape

    colour = "red" if finding.level == "error" else "yellow"
    where = finding.place.variable or f"{file}:{finding.line or 1}"
    console = printing.out()

    def shown(text: str) -> str:
        return escape(printing.escape_line(text))

    setting = f" {shown(finding.setting)}:" if finding.setting else ""
    console.print(
        f"{shown(where)}: [bold {colour}]{finding.level}[/]{setting} {shown(finding.message)}"
    )
    if finding.cure:
        console.print(f"    [green]cure[/] {shown(finding.cure)}")


def _print_json(file: Path, finding: Finding) -> None:
    printing.json_line(
        {
            "file": str(file),
            "line": finding.line,
            "level": finding.level,
            "setting": finding.setting,
            "message": finding.message,
            "cure": finding.cure,
        }
    )

"""``skybridge test`` runs test cases against the routes and subscriptions of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import exits, printing
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.config.check.cases import Suite
    from app.features.checks.cases import Mismatch


@verb(
    "test",
    "skybridge test cases.yaml --config skybridge.yaml",
    "skybridge test cases.yaml                     # the file names its configuration",
    "skybridge test cases.yaml --only orders       # cases with this text in their name",
    "# a case, in YAML:",
    "#   configuration: skybridge.yaml",
    "#   cases:",
    "#     - name: an order goes to the log of orders",
    "#       event: {type: com.example.order.created, partitionkey: order-7, data: {total: 12}}",
    "#       expect: {route: orders, to: [log/orders], key: order-7, subscriptions: [billing]}",
    "#     - name: an unknown event is refused",
    "#       event: {type: com.example.other}",
    "#       expect: {refused: no-route}",
)
def run(
    file: Annotated[Path, typer.Argument(help="Run the cases of this YAML file.")],
    config: Annotated[
        Path | None,
        option(
            "Test this configuration file; by default the file that the cases name.",
            "-c",
            envvar="SKYBRIDGE_CONFIG",
        ),
    ] = None,
    only: Annotated[
        str, option("Run only cases with this text in their name; by default all cases.")
    ] = "",
    as_json: Annotated[bool, option("Print one JSON object per case.", "--json")] = False,
) -> None:
    """Test routes and subscriptions with cases from a file.

    Nothing is sent and no broker is asked. A case has name, event (attributes and data;
    specversion, id and source are filled in) and expect.

    Only the members that expect has are compared: route, to (broker/topic), key (null for none),
    content_mode, subscriptions and refused. The member subscriptions lists all that would deliver
    the event; refused is the code or status of a problem.

    A case may also have mode (binary or structured), key (of the request), route (posted to
    /events/{route}) and producer (the sender). Exits with 1 if a case fails.
    """
    import os

    from app.config.check.cases import read_cases
    from app.config.check.source import ConfigSource
    from app.features.checks.cases import CaseRunner

    suite = read_cases(file)
    under_test = ConfigSource(_configuration(file, suite, config), os.environ)
    bench = CaseRunner(under_test.judge(under_test.read())[0].config)
    failed = total = 0
    for case, line in zip(suite.cases.cases, suite.lines, strict=True):
        if only not in case.name:
            continue
        found = bench.judge(case)
        total, failed = total + 1, failed + bool(found)
        if as_json:
            _print_json(case.name, line, found)
        else:
            _print(case.name, f"{file}:{line}", found)
    if not total:
        printing.fail(f"--only {only} matches no case.", code=exits.SETUP)
    if not as_json:
        printing.err().print(f"{total - failed} passed, {failed} failed")
    if failed:
        raise typer.Exit(exits.FAILED)


def _configuration(file: Path, suite: Suite, given: Path | None) -> Path:
    if given is not None:
        return given
    named = suite.cases.configuration
    if named is None:
        printing.fail(
            "The configuration under test is missing.",
            cure="Add --config FILE, or write configuration: FILE into the file of the cases.",
            code=exits.SETUP,
        )
    return file.parent / named


def _print(name: str, place: str, found: Sequence[Mismatch]) -> None:
    if not found:
        printing.text_line(f"ok    {name}")
        return
    printing.text_line(f"FAIL  {name}  ({place})")
    for each in found:
        printing.text_line(f"      {each.what}: expected {_shown(each.expected)}")
        printing.text_line(f"      {' ' * len(each.what)}  but came {_shown(each.came)}")
        for line in each.why:
            printing.text_line(f"        {line}")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _print_json(name: str, line: int, found: Sequence[Mismatch]) -> None:
    import msgspec

    printing.json_line(
        {"name": name, "line": line, "passed": not found, "failures": msgspec.to_builtins(found)}
    )

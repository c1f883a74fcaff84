"""How verbs speak: people get words on a terminal, machines get one JSON document a line.

Results go to standard output, everything else to standard error, so that pipes stay clean.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from app.cli import exits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console
    from rich.progress import Progress


def out() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def counting(*fields: str, quiet: bool = False) -> Progress:
    """Bars of work that is counted, with the time it has taken and will; ``fields`` of a task are shown."""
    from rich import progress

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        *(progress.TextColumn(f"{{task.fields[{name}]}}") for name in fields),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=err(),
        disable=quiet,
    )


def document(value: Mapping[str, Any], out: Path | None) -> None:
    """As JSON for people, into the file ``out`` or to standard output."""
    import json

    text = json.dumps(value, indent=2) + "\n"
    if out is None:
        print(text, end="")
        return
    try:
        out.write_text(text)
    except OSError as failure:
        fail(f"{out} cannot be written: {failure.strerror}.")


def json_line(value: Any) -> None:
    import msgspec

    text_line(msgspec.json.encode(value).decode())


def text_line(text: str) -> None:
    """As it is, and at once: whoever reads a pipe is waiting."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Plain columns: they are also read by awk."""
    lines = [[name.upper().replace(" ", "_") for name in columns], *map(_texts, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        text_line("  ".join(padded).rstrip())


def _texts(row: Sequence[Any]) -> list[str]:
    return [_text(value) for value in row]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def one_line(text: str) -> str:
    """What a target said, without what a terminal would obey."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def explain(message: str, cure: str = "") -> None:
    """What is wrong and how to mend it, on standard error."""
    from rich.markup import escape

    console = err()
    console.print(f"[bold red]error[/] {escape(message)}")
    if cure:
        console.print(f"[bold green]cure[/]  {escape(cure)}")


def fail(message: str, *, cure: str = "", code: int = exits.FAILED) -> NoReturn:
    """``explain``, then leave with ``code``."""
    explain(message, cure)
    raise typer.Exit(code)

"""How verbs speak: people get words on a terminal, machines get one JSON document a line.

Results go to standard output, everything else to standard error, so that pipes stay clean.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from app.cli import exits

if TYPE_CHECKING:
    from rich.console import Console


def out() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def json_line(value: Any) -> None:
    import msgspec

    text_line(msgspec.json.encode(value).decode())


def text_line(text: str) -> None:
    """As it is, and at once: whoever reads a pipe is waiting."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


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

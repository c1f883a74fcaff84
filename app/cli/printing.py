"""How verbs speak: people get words on a terminal, machines get one JSON document a line.

Results go to standard output, everything else to standard error, so that pipes stay clean.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from app.cli import exits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

    Column = str | tuple[str, str | Callable[[Any], Any]]


def out() -> Console:
    return _console(to_stderr=False)


def err() -> Console:
    return _console(to_stderr=True)


def _console(*, to_stderr: bool) -> Console:
    """Return a console that prints names from outside escaped; only its own styles steer the terminal."""
    from rich.console import Console

    class SafeConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(lines_of(text), **options)

    return SafeConsole(stderr=to_stderr, highlight=False, soft_wrap=True)


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


def json_line(value: Any) -> None:
    import msgspec

    text_line(msgspec.json.encode(value).decode())


def text_line(text: str) -> None:
    """Print lines at once, because the reader of a pipe is waiting. What a terminal would obey is escaped; JSON
    on one line keeps its meaning."""
    if sys.stdout is None:  # the shell closed it
        _unwritten("it is closed")
    try:
        sys.stdout.write(lines_of(text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has read enough: the command ends without a word
        raise
    except OSError as fault:
        _forget_output()
        _unwritten(fault.strerror or reason(fault))


def _unwritten(why: str) -> NoReturn:
    fail(
        f"standard output cannot be written: {why}",
        cure="redirect it to a file or a pipe with room",
    )


def _forget_output() -> None:
    """Let Python drop what it could not write: it would try again at its end, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Plain columns: they are also read by awk."""
    lines = [[name.upper().replace(" ", "_") for name in columns], *map(_texts, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        text_line("  ".join(padded).rstrip())


def listing(columns: Sequence[Column], found: Iterable[Any]) -> None:
    """A table with a row of each object. A column is its heading, and what stands below it: the name of a
    field, ``event.id`` where it is further in, or a function of the object; the heading itself by default.
    """
    named = [(each, each) if isinstance(each, str) else each for each in columns]
    rows = [[_of(each, what) for _, what in named] for each in found]
    table([heading for heading, _ in named], rows)


def _of(found: Any, what: str | Callable[[Any], Any]) -> Any:
    if not isinstance(what, str):
        return what(found)
    for name in what.split("."):
        found = found[name]
    return found


def _texts(row: Sequence[Any]) -> list[str]:
    return [_text(value) for value in row]


def _text(value: Any) -> str:
    """A cell: keys of records, which anybody may have written, stand in some."""
    if isinstance(value, list):
        return one_line(",".join(map(str, value))) or "-"
    return "-" if value is None else one_line(str(value))


def moment(milliseconds: int) -> str:
    """RFC 3339, to the second."""
    import datetime as dt

    at = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def moment_of(field: str) -> Callable[[Any], str | None]:
    """For a column: RFC 3339 of a field in milliseconds, where it has a value."""
    return lambda found: None if found[field] is None else moment(found[field])


def rounded(field: str, form: str = "{:.0f}") -> Callable[[Any], str | None]:
    """For a column: a number, where the field has one."""
    return lambda found: None if found[field] is None else form.format(found[field])


def one_line(text: str) -> str:
    """Return text from outside on one line; what a terminal would obey is escaped."""
    from app.telemetry.printable import printable

    return printable(text.strip())


def lines_of(text: str) -> str:
    """Return text from outside with its line ends; what a terminal would obey is escaped."""
    from app.telemetry.printable import printable_lines

    return printable_lines(text)


def print_error(message: str, cure: str = "", details: Iterable[str] = ()) -> None:
    """Print what is wrong and how to mend it on standard error. Each argument is one line: names in it, which may come
    from outside, begin no other."""
    from rich.markup import escape

    console = err()
    console.print(f"[bold red]error[/] {escape(one_line(message))}")
    for each in details:
        console.print(f"  {escape(one_line(each))}")
    if cure:
        console.print(f"[bold green]cure[/]  {escape(one_line(cure))}")


def fail(message: str, *, cure: str = "", code: int = exits.FAILED) -> NoReturn:
    """``print_error``, then leave with ``code``."""
    print_error(message, cure)
    import typer

    raise typer.Exit(code)


def nobody(address: str, fault: Exception, cure: str) -> NoReturn:
    """Leaves because nothing usable answers there."""
    fail(
        f"nothing usable answers at {address}: {reason(fault)}.", cure=cure, code=exits.UNREACHABLE
    )


def reason(fault: Exception) -> str:
    return str(fault).rstrip(".") or type(fault).__name__

"""Output of the commands: text for people, one JSON document per line for machines.

Results go to standard output and everything else to standard error, so a pipe gets results alone.
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
    """Return a console that escapes text from outside; only its own styles control the terminal."""
    from rich.console import Console

    class SafeConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(escape_lines(text), **options)

    return SafeConsole(stderr=to_stderr, highlight=False, soft_wrap=True)


def progress_bars(*fields: str, quiet: bool = False) -> Progress:
    """Return progress bars with counts, elapsed and remaining time. ``fields`` are the task fields
    to show.
    """
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
    """Print lines at once, because the reader of a pipe waits for them. Control characters of a
    terminal are escaped, which keeps the meaning of JSON on one line.
    """
    if sys.stdout is None:  # the shell closed standard output
        _unwritten("it is closed")
    try:
        sys.stdout.write(escape_lines(text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader stopped reading: end without a message
        raise
    except OSError as fault:
        _forget_output()
        _unwritten(fault.strerror or reason(fault))


def _unwritten(why: str) -> NoReturn:
    fail(
        f"standard output cannot be written: {why}.",
        cure="Redirect it to a file or pipe that has room.",
    )


def _forget_output() -> None:
    """Point standard output to the null device, because Python would retry the failed write at exit
    and complain.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun: ``1 event``, ``2 events``. ``several`` is an irregular plural."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print plain columns, padded with spaces, which awk can read too."""
    lines = [[name.upper().replace(" ", "_") for name in columns], *map(_texts, rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        text_line("  ".join(padded).rstrip())


def print_rows(columns: Sequence[Column], found: Iterable[Any]) -> None:
    """Print a table with one row per object.

    A column is a heading, or a heading with the name of a field or a function of the object.
    ``event.id`` names a nested field. Without a field, the heading itself names it.
    """
    named = [(each, each) if isinstance(each, str) else each for each in columns]
    rows = [[_of(each, what) for _, what in named] for each in found]
    print_table([heading for heading, _ in named], rows)


def _of(found: Any, what: str | Callable[[Any], Any]) -> Any:
    if not isinstance(what, str):
        return what(found)
    for name in what.split("."):
        found = found[name]
    return found


def _texts(row: Sequence[Any]) -> list[str]:
    return [_text(value) for value in row]


def _text(value: Any) -> str:
    """Return the text of a cell. Text is escaped, because record keys come from outside."""
    if isinstance(value, list):
        return escape_line(",".join(map(str, value))) or "-"
    return "-" if value is None else escape_line(str(value))


def moment(milliseconds: int) -> str:
    """Return milliseconds since 1970 as RFC 3339 in UTC, to the second."""
    import datetime as dt

    at = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def moment_of(field: str) -> Callable[[Any], str | None]:
    """Return a column function: RFC 3339 of a field in milliseconds, or None if the field is None."""
    return lambda found: None if found[field] is None else moment(found[field])


def rounded(field: str, form: str = "{:.0f}") -> Callable[[Any], str | None]:
    """Return a column function: the formatted number of a field, or None if the field is None."""
    return lambda found: None if found[field] is None else form.format(found[field])


def escape_line(text: str) -> str:
    """Return text from outside on one line, with the control characters of a terminal escaped."""
    from app.telemetry.printable import printable

    return printable(text.strip())


def escape_lines(text: str) -> str:
    """Return text from outside with its line ends, with other control characters of a terminal
    escaped.
    """
    from app.telemetry.printable import printable_lines

    return printable_lines(text)


def print_error(message: str, cure: str = "", details: Iterable[str] = ()) -> None:
    """Print an error and its cure on standard error. Each argument stays on one line, because names
    in it may come from outside.
    """
    from rich.markup import escape

    console = err()
    console.print(f"[bold red]error[/] {escape(escape_line(message))}")
    for each in details:
        console.print(f"  {escape(escape_line(each))}")
    if cure:
        console.print(f"[bold green]cure[/]  {escape(escape_line(cure))}")


def fail(message: str, *, cure: str = "", code: int = exits.FAILED) -> NoReturn:
    """Print an error and its cure, then exit with ``code``."""
    print_error(message, cure)
    import typer

    raise typer.Exit(code)


def fail_unreachable(address: str, fault: Exception, cure: str) -> NoReturn:
    """End the command because no usable server answers at ``address``."""
    fail(f"{address} does not answer: {reason(fault)}.", cure=cure, code=exits.UNREACHABLE)


def reason(fault: Exception) -> str:
    return str(fault).rstrip(".") or type(fault).__name__

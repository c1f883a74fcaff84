"""The output of the commands: text for people, and one JSON document per line for programs.

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
    """Return a console that escapes control characters in the text that it prints. So only the
    styles of the console can control the terminal.
    """
    from rich.console import Console

    class SafeConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(escape_lines(text), **options)

    return SafeConsole(stderr=to_stderr, highlight=False, soft_wrap=True)


def progress_bars(*fields: str, quiet: bool = False) -> Progress:
    """Return progress bars with counts, and with elapsed and remaining time. ``fields`` are the
    names of further task fields that the bars show.
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
    """Print text and flush the output, because the reader of a pipe waits for each line. Control
    characters of a terminal are escaped. In JSON on one line this does not change the meaning.
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
    """Redirect standard output to the null device. Otherwise Python would retry the failed write at
    exit and print an error.
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

    A column is a heading with the name of a field or with a function of the object. The name
    ``event.id`` means a nested field. If a column is only a heading, the heading is also the name
    of the field.
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
    from app.model.far_times import time_or_text

    at = time_or_text(milliseconds * 1000)
    if isinstance(at, str):
        return at
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def moment_of(field: str) -> Callable[[Any], str | None]:
    """Return a function for a column. It returns a field in milliseconds as an RFC 3339 time, or
    None if the field is None.
    """
    return lambda found: None if found[field] is None else moment(found[field])


def rounded(field: str, form: str = "{:.0f}") -> Callable[[Any], str | None]:
    """Return a function for a column. It returns the number in a field as text in the given form,
    or None if the field is None.
    """
    return lambda found: None if found[field] is None else form.format(found[field])


def escape_line(text: str) -> str:
    """Return untrusted text on one line, with the control characters of a terminal escaped."""
    from app.telemetry.printable import printable

    return printable(text.strip())


def escape_lines(text: str) -> str:
    """Return untrusted text with its line ends, and with all other control characters of a terminal
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

"""Checks of the values of options and arguments. A command with a wrong value ends before it does anything.

The functions that begin with ``refuse`` apply to every command. The other functions are callbacks of
single options. A callback returns the value, or ends the command. Each message names the option and the cure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import typer

from app.cli import exits, metavars, printing

FASTEST = 1_000_000.0  # events per second of a replay or redrive

Check = Callable[[typer.CallbackParam, str], str]

_TIMES = "a duration such as 1h, a time such as 2026-01-01T00:00:00Z, or milliseconds since 1970"
_BACK = re.compile(r"latest-\d{1,9}", re.ASCII)
_POSITION = r"\d+(:\d+){0,2}"  # an offset, or ledger and entry of Pulsar
_PLACES = re.compile(rf"\d{{1,6}}[@>]{_POSITION}(,\s*\d{{1,6}}[@>]{_POSITION})*", re.ASCII)
_ALONE = re.compile(_POSITION, re.ASCII)
_CHOICES = re.compile(r"is not one of (.+?)\.?$")
_BOUND = re.compile(r"(greater|less) than or equal to (\S+)")
_NUMBER = re.compile(r"valid (integer|number)")


def refuse_nothing(parameters: Mapping[str, Any], texts: Mapping[str, Any]) -> None:
    """End the command if a parameter of its command line is empty, which is what an unset variable of a shell becomes.

    Args:
        parameters: The parameters of the command, by name.
        texts: The texts of the command line, by the name of their parameter; a list if there may be several.
    """
    for name, given in texts.items():
        if "" in (given if isinstance(given, list | tuple) else (given,)):
            shown = written(parameters[name])
            rest = "" if parameters[name].required else f", or remove {shown}"
            _fail(f"{shown} is empty.", f"Write a value for {shown}{rest}.")


def refuse_infinite(parameters: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """End the command if a number is ``nan`` or ``inf``, which Python reads as numbers."""
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            shown = written(parameters[name])
            _fail(f"{shown} {value} is not a number.", f"Write a number, such as {shown} 1.5.")


def refuse_by(error: typer.BadParameter, texts: Mapping[str, Any]) -> NoReturn:
    """End the command because typer refuses a value, with a message in the words of the others.

    Raises:
        BadParameter: If the message of typer is of another kind.
    """
    parameter, message = error.param, error.message
    if parameter is None:
        raise error
    shown, given = written(parameter), texts.get(str(parameter.name))
    said = f"{shown} {given if isinstance(given, str) else ' '.join(given or ())}"
    if choices := _CHOICES.search(message):
        known = choices[1].replace("'", "")
        _fail(f"{said} is not one of the choices.", f"Write one of: {known}.")
    if bound := _BOUND.search(message):
        size, word = ("small", "at least") if bound[1] == "greater" else ("large", "at most")
        _fail(f"{said} is too {size}.", f"Write {word} {bound[2]}.")
    if number := _NUMBER.search(message):
        kind = "a whole number" if number[1] == "integer" else "a number"
        _fail(f"{said} is not {kind}.", f"Write {kind}, such as {shown} 10.")
    raise error


def written(parameter: Any) -> str:
    """Return a parameter as the help writes it: ``--key``, or ``FILE``."""
    is_argument = parameter.param_type_name == "argument"
    return metavars.usage(parameter).strip("[].") if is_argument else max(parameter.opts, key=len)


def moment(param: typer.CallbackParam, value: str) -> str:
    """Return a time as the API reads it: RFC 3339, or milliseconds since 1970. A duration means that long ago."""
    from app.model.moment import LATEST_MS, time_of

    if not value or time_of(value) is not None:
        return value
    if value.isascii() and value.isdecimal() and int(value[:20]) <= LATEST_MS:
        return value
    ago = _seconds(value)
    if ago is None:
        _refuse(param, value, "a time", f"Write {_TIMES}.")
    return str(max(0, round((_now() - ago) * 1000)))


def start(param: typer.CallbackParam, value: str) -> str:
    """Return where to start in a topic. A bare position is possible, and so is ``latest-20``."""
    if _BACK.fullmatch(value) or _ALONE.fullmatch(value):
        return value
    return _point(param, value, "earliest, latest, latest-20")


def range_end(param: typer.CallbackParam, value: str) -> str:
    """Return the start or the end of a range of a topic."""
    return _point(param, value, "earliest, latest")


def _point(param: typer.CallbackParam, value: str, words: str) -> str:
    from app.model.moment import time_of

    known = value in {"", "earliest", "latest"} or _PLACES.fullmatch(value)
    if not known and time_of(value) is None:
        cure = (
            f"Write {words}, a time such as 2026-01-01T00:00:00Z, or positions such as 0@42,3@17."
        )
        _refuse(param, value, "a point of a topic", cure)
    return value


def event_time(param: typer.CallbackParam, value: str) -> str:
    """Return the time of an event."""
    from app.event.types import is_timestamp

    if value and not is_timestamp(value):
        _refuse(param, value, "a time", "Write it by RFC 3339, such as 2026-01-01T00:00:00Z.")
    return value


def url(example: str, *, is_base: bool = False) -> Check:
    """Return the check of a URL that begins with http:// or https://.

    Args:
        example: A URL for the message.
        is_base: Whether the command appends a path to the URL, so that a slash at its end is removed.
    """

    def check(param: typer.CallbackParam, value: str) -> str:
        if value and not _is_url(value):
            _refuse(param, value, "the URL of a server", f"Write it as {example}.")
        return value.rstrip("/") if is_base else value

    return check


def _is_url(text: str) -> bool:
    """Return True for the URL of a server: http or https, a host, and no port 0."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def retry_after(param: typer.CallbackParam, value: str) -> str:
    """Return the value of a header Retry-After: seconds, or a date of HTTP."""
    from email.utils import parsedate_to_datetime

    if value and not (value.isascii() and value.isdecimal()):
        try:
            parsedate_to_datetime(value)
        except ValueError:
            cure = "Write seconds such as 30, or a date such as 'Thu, 01 Jan 2026 00:00:00 GMT'."
            _refuse(param, value, "a value of the header Retry-After", cure)
    return value


def target(param: typer.CallbackParam, value: str) -> str:
    """Return a topic as BROKER/TOPIC."""
    broker, _, topic = value.partition("/")
    if value and not (broker and topic):
        _refuse(param, value, "a topic of a broker", f"Write {written(param)} BROKER/TOPIC.")
    return value


def _seconds(text: str) -> float | None:
    from app.model.duration import seconds

    try:
        return float(str(seconds(text)))
    except ValueError:
        return None


def _now() -> float:
    from app.interfaces.clock import SystemClock

    return SystemClock().now()


def _refuse(param: typer.CallbackParam, value: str, what: str, cure: str) -> NoReturn:
    _fail(f"{written(param)} {value} is not {what}.", cure)


def _fail(message: str, cure: str) -> NoReturn:
    printing.fail(message, cure=cure, code=exits.SETUP)

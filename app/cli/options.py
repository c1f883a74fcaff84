"""What a person gives to a verb: files, data, attributes, addresses; and what is wrong with them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from app.cli import exits, printing
from app.cli.verbs import option

if TYPE_CHECKING:
    from app.config.model.config import Config

ConfigFile = Annotated[
    Path | None, option("The configuration file.", "--config", "-c", envvar="SKYBRIDGE_CONFIG")
]

# Of an event that a verb makes.
EventType = Annotated[str, option("The event's type.", "--type", "-t")]
Source = Annotated[str, option("Its source.", "--source", "-s")]
Subject = Annotated[str, option("Its subject.")]
Attributes = Annotated[
    list[str] | None, option("An extension attribute.", "--attribute", "-a", metavar="NAME=VALUE")
]
Data = Annotated[str, option("Data of the event; @FILE reads a file.", "--data", "-d")]


def attributes(pairs: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` each."""
    from app.bindings.forwarding import is_field_name

    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            printing.fail(f"--attribute {pair} is not NAME=VALUE.", code=exits.SETUP)
        if not is_field_name(name):  # all else is for the service, which lists every fault
            printing.fail(
                f"--attribute {pair} does not begin with a name that a header can have.",
                cure="A name has only a-z and 0-9.",
                code=exits.SETUP,
            )
        found[name] = value
    return found


def data(text: str) -> bytes | None:
    """Of an event: text, ``@FILE``, or none."""
    return argument(text) if text else None


def argument(text: str) -> bytes:
    """The text itself, or what ``@FILE`` holds."""
    return content(text[1:]) if text.startswith("@") else text.encode()


def content(file: Path | str) -> bytes:
    """Of a file; ``-`` is standard input."""
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as failure:
        printing.fail(f"{file} cannot be read: {failure.strerror}.", code=exits.SETUP)


def configuration(file: Path | None) -> Config:
    """Raises SetupError with every line that is wrong."""
    import os

    from app.config.load.loader import load

    return load(file, os.environ).config


def demand_address(option: str, address: str, example: str) -> None:
    """Ends the verb for what is no http address at all: starting a service would not help."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        printing.fail(
            f"{option} {address} is not the address of a server.",
            cure=f"Write it as {example}",
            code=exits.SETUP,
        )


def has_certificate(address: str) -> bool:
    """Whether a request there has to look at one. To read the authorities takes longer than most requests."""
    return not address.lower().startswith("http://")


def now(timespec: str = "milliseconds") -> str:
    import datetime as dt

    return dt.datetime.now(dt.UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


Credential = Annotated[
    str,
    option(
        "Key or token of a producer; best by its variable, which no list of processes shows.",
        envvar="SKYBRIDGE_EVENTS_KEY",
        show_envvar=True,
    ),
]


def authorization(credential: str, name: str = "--credential") -> dict[str, str]:
    """The header of a request. White space around a credential comes from the file that it was in."""
    credential = demanded_value(name, credential.strip())
    return {"authorization": f"Bearer {credential}"} if credential else {}


def demanded_value(name: str, text: str) -> str:
    """Ends the verb for what no header can carry; the message does not repeat it."""
    from app.bindings.forwarding import is_field_value

    if not is_field_value(text):
        printing.fail(
            f"{name} holds a character that no header can carry, a line end for example.",
            cure="Give it without.",
            code=exits.SETUP,
        )
    return text

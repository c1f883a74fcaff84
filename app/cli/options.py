"""Options that several commands share, with their checks: files, data, attributes and credentials."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from app.cli import exits, printing
from app.cli.verbs import given_options, known_options, option

if TYPE_CHECKING:
    from app.config.model.config import Config

ConfigFile = Annotated[
    Path | None,
    option(
        "Use this configuration file; by default a configuration with an embedded log in ./skybridge-data.",
        "--config",
        "-c",
        envvar="SKYBRIDGE_CONFIG",
    ),
]

# Options of the commands that make an event.
EventType = Annotated[str, option("Set the type of the event.", "--type", "-t")]
Source = Annotated[str, option("Set the source of the event.", "--source", "-s")]
Subject = Annotated[str, option("Set the subject of the event; by default none.")]
Attributes = Annotated[
    list[str] | None,
    option(
        "Set an extension attribute; may be repeated.", "--attribute", "-a", metavar="NAME=VALUE"
    ),
]
Data = Annotated[
    str,
    option(
        "Set the data of the event; @FILE reads the data from a file; by default no data.",
        "--data",
        "-d",
    ),
]


def refuse_ineffective(why: str, *parameters: str) -> None:
    """End the command if its command line has one of these options, which ``why`` deprives of their effect.

    Args:
        why: The reason, which completes the sentence "--id has no effect, because".
        parameters: The parameters of the command, such as ``batch_size`` for --batch-size.
    """
    names = given_options(*parameters)
    if names:
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        printing.fail(
            f"{listed} {'has' if len(names) == 1 else 'have'} no effect, because {why}.",
            cure=f"Remove {listed}.",
            code=exits.SETUP,
        )


_OF_ATTRIBUTES = {
    "datacontenttype": "--content-type",
    **{name: f"--{name}" for name in ("type", "source", "id", "subject", "time")},
}
"""The options of a command that makes events, by the attribute that they set."""


def attributes(pairs: Sequence[str]) -> dict[str, str]:
    """Return the attributes of ``NAME=VALUE`` pairs. End the command if a pair is malformed, repeats an attribute, or
    sets one that has an option of its own.
    """
    from app.bindings.forwarding import is_field_name

    found: dict[str, str] = {}
    known = known_options()
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            printing.fail(
                f"--attribute {pair} is not of the form NAME=VALUE.",
                cure="Write it as --attribute NAME=VALUE.",
                code=exits.SETUP,
            )
        if not is_field_name(name):  # the service checks everything else and lists every fault
            printing.fail(
                f"--attribute {pair} has a name that no header can have.",
                cure="Use only a-z and 0-9 in the name.",
                code=exits.SETUP,
            )
        if (own := _OF_ATTRIBUTES.get(name)) in known:
            printing.fail(
                f"--attribute {pair} sets an attribute that has the option {own}.",
                cure=f"Write {own} {value}".rstrip() + ".",
                code=exits.SETUP,
            )
        if name in found:
            printing.fail(
                f"--attribute {pair} repeats the attribute {name}.",
                cure="Remove one of the two.",
                code=exits.SETUP,
            )
        found[name] = value
    return found


def data(text: str) -> bytes | None:
    """Return the data of an event: the text itself, or the content of ``@FILE``; None for empty
    text.
    """
    return argument(text) if text else None


def argument(text: str) -> bytes:
    """Return the text as bytes. For ``@FILE``, return the content of the file."""
    return content(text[1:]) if text.startswith("@") else text.encode()


def content(file: Path | str) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``. End the command if the file
    cannot be read.
    """
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as failure:
        printing.fail(
            f"{file} cannot be read: {failure.strerror}.",
            cure="Check the path and its permissions.",
            code=exits.SETUP,
        )


def configuration(file: Path | None) -> Config:
    """Load the configuration, or raise SetupError with every finding."""
    import os

    from app.config.load.loader import load

    return load(file, os.environ).config


def needs_certificates(address: str) -> bool:
    """Return True if requests to the address use TLS and so need the authorities. Other requests do
    without them, because loading them takes longer than most requests.
    """
    return not address.lower().startswith("http://")


def now(timespec: str = "milliseconds") -> str:
    """Return the present time in UTC as RFC 3339."""
    import datetime as dt

    return dt.datetime.now(dt.UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


Credential = Annotated[
    str,
    option(
        "Send this key or token of a producer. The environment variable is safer, because process lists show options.",
        envvar="SKYBRIDGE_EVENTS_KEY",
        show_envvar=True,
    ),
]


def authorization(credential: str, name: str = "--credential") -> dict[str, str]:
    """Return the Authorization header for a credential. White space around the credential, such as
    a line end from a file, is removed.
    """
    credential = require_header_value(name, credential.strip())
    return {"authorization": f"Bearer {credential}"} if credential else {}


def require_header_value(name: str, text: str) -> str:
    """Return the text if a header can carry it; otherwise end the command. The message does not
    repeat the text.
    """
    from app.bindings.forwarding import is_field_value

    if not is_field_value(text):
        printing.fail(
            f"{name} has a character that no header can carry, such as a line end.",
            cure="Remove that character.",
            code=exits.SETUP,
        )
    return text

"""``skybridge producers`` lists producers, generates a key, and tests a credential."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from app.cli import exits, keys, options, printing, verbs
from app.cli.admin_client import AdminClient
from app.cli.verbs import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.access.caller import EventSender
    from app.cli.printing import Column
    from app.gateway.answers import HttpAnswer
    from app.gateway.door import Authenticator

app = verbs.group("producers", "List producers, and generate or test their keys.")
key = verbs.group("key", "Generate keys of producers.")
app.add_typer(key)

_BYTES = 32
_PREFIX = "sky_"  # lets secret scanners find a key in source code


@app.verb("list", "skybridge producers list", "skybridge producers list --json")
def list_(*, service: AdminClient) -> None:
    """List the producers of a running service.

    Each row has the number of accepted events, their rate per second, the number of refusals, and
    the age of the last event.
    """
    service.show_all(service.get("/status")["producers"], _PRODUCERS)


_PRODUCERS: Sequence[Column] = (
    ("producer", "name"),
    "events",
    ("per second", "events_per_second"),
    "refused",
    ("last event", lambda each: _ago(each["last_event_seconds"])),
)


def _ago(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:.0f} s ago"


@key.verb(
    "new", "skybridge producers key new > /run/secrets/shop", "skybridge producers key new --json"
)
def new(
    as_json: Annotated[bool, option("Print one JSON document.", "--json")] = False,
) -> None:
    """Generate a key for a producer: 256 random bits.

    The command prints the key alone on a line, and stores nothing. Write the key into a file, name
    this file in producers[].keys, and give the key to the sender.
    """
    made = new_key()
    if as_json:
        printing.json_line({"key": made})
    else:
        printing.text_line(made)


def new_key() -> str:
    """Return a new key of a producer."""
    import secrets

    return f"{_PREFIX}{secrets.token_urlsafe(_BYTES)}"


@app.verb(
    "test",
    "skybridge producers test /run/secrets/shop --config skybridge.yaml",
    "skybridge producers test token.jwt --config skybridge.yaml --source /warehouse/1",
    "skybridge producers key new | skybridge producers test - --config skybridge.yaml",
)
def try_(
    file: Annotated[
        Path, typer.Argument(help="Test the key or token in this file; - reads standard input.")
    ],
    config: Annotated[
        Path,
        option("Read the producers of this configuration file.", "-c", envvar="SKYBRIDGE_CONFIG"),
    ],
    header: Annotated[
        str, option("Expect the credential in this request header.")
    ] = "Authorization",
    source: Annotated[
        str,
        option(
            "Check whether the producer may send events of this source; by default not checked.",
            "-s",
        ),
    ] = "",
    type_: Annotated[
        str,
        option(
            "Check whether the producer may send events of this type; by default not checked.", "-t"
        ),
    ] = "",
    route: Annotated[
        str, option("Check whether the producer may post to this route; by default not checked.")
    ] = "",
    key: Annotated[
        str, option("Check whether the producer may use this record key; by default not checked.")
    ] = "",
    as_json: Annotated[bool, option("Print one JSON document.", "--json")] = False,
) -> None:
    """Show which producer a key or token belongs to.

    With --source, --type, --route or --key, the command also checks whether the producer may send
    such an event. It sends no event and never prints the credential. It fetches the keys of token
    issuers, as the service does. Exits with 1 if the credential is refused or the producer lacks a
    right.
    """
    import asyncio

    from app.gateway.answers import HttpAnswer

    credential = options.content(file).strip()
    keys.warn_if_readable("FILE", file)
    found = asyncio.run(_authenticate(_authenticator(config), header, credential))
    if isinstance(found, HttpAnswer):
        _print_and_exit(as_json, {"producer": None, "refused": _details(found)})
    asked = {"source": source, "type": type_}
    faults = [each for each in found.rights.faults_of(asked) if asked[each.at]]
    if route:
        faults += found.rights.faults_of_route(route)
    if key:
        faults += found.rights.faults_of_key(key.encode())
    _print_and_exit(as_json, {"producer": found.name, "refused": [each.detail for each in faults]})


def _authenticator(config: Path) -> Authenticator:
    """Return the authenticator of the producers in a configuration file."""
    from app.access.who import ProducerDirectory
    from app.gateway.door import Authenticator
    from app.gateway.issuers import Issuers
    from app.interfaces.clock import SystemClock

    clock = SystemClock()
    producers = ProducerDirectory(options.configuration(config).producers)
    return Authenticator(producers, Issuers(clock.monotonic).of, clock, is_open=False)


async def _authenticate(
    door: Authenticator, header: str, credential: bytes
) -> EventSender | HttpAnswer:
    """Return the producer that the credential belongs to, or the refusal."""
    from app.gateway.request import Pending

    name = header.lower().encode()
    value = b"Bearer " + credential if name == b"authorization" else credential
    verdict = door.judge([(name, value)], {name: value}, (), "")
    if isinstance(verdict, Pending):
        await verdict.asking
        return door.judge_again(verdict)
    assert verdict is not None  # noqa: S101 - access is not open here
    return verdict


def _details(answer: HttpAnswer) -> list[str]:
    import msgspec

    document = msgspec.json.decode(answer.body)
    return [fault["detail"] for fault in document["faults"]] or [document["title"]]


def _print_and_exit(as_json: bool, found: dict[str, Any]) -> NoReturn:
    """Print the producer and the refused rights, and end the command with exit code 0 or 1."""
    if as_json:
        printing.json_line(found)
    else:
        name = found["producer"]
        printing.text_line("of no producer" if name is None else f"producer {name}")
        for each in found["refused"]:
            printing.text_line(f"refused  {each}")
    raise typer.Exit(exits.FAILED if found["refused"] else 0)

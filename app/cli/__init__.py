"""Shell. The commands, one module each; heavy parts are imported inside the command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app import __version__
from app.cli import (  # noqa: F401 - each registers its verbs
    audit,
    check,
    dead_letters,
    deliveries,
    demo,
    documents,
    exits,
    explain,
    find,
    pipeline,
    plan,
    printing,
    producers,
    pull,
    receive,
    replaying,
    secret,
    send,
    serve,
    status,
    store,
    subscriptions,
    tail,
    test,
    topics,
    verbs,
    verify,
)
from app.cli.verbs import option

app = verbs.root
_ORDER = (
    *(
        "serve",
        "status",
        "send",
        "receive",
        "pull",
        "tail",
        "explain",
        "find",
        "attempts",
        "parked",
        "audit",
    ),
    *("demo", "init", "check", "test", "plan", "schema", "openapi", "asyncapi", "secret", "verify"),
)
app.registered_commands.sort(key=lambda each: _ORDER.index(each.name or ""))
for _group in (producers, topics, subscriptions, dead_letters, store, pipeline):
    app.add_typer(_group.app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"skybridge {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, option("Print the version.", "--version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    del version


def main() -> None:
    """The console script. Expected errors become one sentence and an exit code, never a traceback."""
    try:
        app()
    except Exception as error:
        from app.errors import SkybridgeError

        if not isinstance(error, SkybridgeError):
            raise
        sys.exit(_translated(error))


def _translated(error: Exception) -> int:
    """Say it, and the exit code it makes."""
    from app.errors import BrokerUnavailable, SetupError

    if isinstance(error, SetupError):
        if hasattr(error, "findings"):  # a configuration: every line that is wrong
            printing.print_error(str(error))
        else:
            where = f"{error.setting}: " if error.setting else ""
            printing.print_error(f"{where}{error.args[0]}", error.cure)
        return exits.SETUP
    printing.print_error(str(error))
    return exits.UNREACHABLE if isinstance(error, BrokerUnavailable) else exits.FAILED

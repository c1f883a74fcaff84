"""Shell. The verbs a person types, one module each; heavy parts are imported inside the verb."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Annotated

import typer

from app import __version__
from app.cli import (
    asyncapi,
    attempts,
    check,
    dead_letters,
    demo,
    exits,
    explain,
    init,
    openapi,
    parked,
    pipeline,
    plan,
    printing,
    pull,
    receive,
    schema,
    secret,
    send,
    serve,
    store,
    subscriptions,
    tail,
    test,
    topics,
    verify,
)

_EPILOG = "Exit codes: " + " · ".join(f"{code} {text}" for code, text in exits.MEANING.items())

app = typer.Typer(
    name="skybridge",
    help="The CloudEvents bridge: HTTP in, Kafka or an embedded durable log, webhooks out.\n\n"
    "Try it: skybridge demo. Or run skybridge serve in one terminal and "
    "skybridge send --type com.example.hello in another.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: importing what draws boxes takes longer than helping
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help(verb: ModuleType) -> str:
    """The verb's docstring and its examples, which must not be wrapped."""
    return "\n\n".join(
        [inspect.cleandoc(verb.run.__doc__ or ""), "\b\nExamples:\n  " + "\n  ".join(verb.EXAMPLES)]
    )


for each in (
    serve,
    send,
    receive,
    pull,
    tail,
    explain,
    attempts,
    parked,
    demo,
    init,
    check,
    test,
    plan,
    schema,
    openapi,
    asyncapi,
    secret,
    verify,
):
    app.command(name=each.__name__.rpartition(".")[2], help=_help(each))(each.run)

app.add_typer(topics.app)
app.add_typer(subscriptions.app)
app.add_typer(dead_letters.app)
app.add_typer(store.app)
app.add_typer(pipeline.app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"skybridge {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
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
        sys.exit(_explain(error))


def _explain(error: Exception) -> int:
    """Say it, and the exit code it makes."""
    from app.errors import BrokerUnavailable, SetupError

    if isinstance(error, SetupError):
        if hasattr(error, "findings"):  # a configuration: every line that is wrong
            printing.explain(str(error))
        else:
            where = f"{error.setting}: " if error.setting else ""
            printing.explain(f"{where}{error.args[0]}", error.cure)
        return exits.SETUP
    printing.explain(str(error))
    return exits.UNREACHABLE if isinstance(error, BrokerUnavailable) else exits.FAILED

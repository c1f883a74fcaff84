"""How a verb is registered: in the root or in a group, with its docstring and its examples as help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import typer

from app.cli import asking, exits

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., None]")


def group(name: str, text: str, **more: Any) -> typer.Typer:
    return typer.Typer(
        name=name,
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,  # plain help: importing what draws boxes takes longer than helping
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )


root = group(
    "skybridge",
    "The CloudEvents bridge: HTTP in, Kafka or an embedded durable log, webhooks out.\n\n"
    "Try it: skybridge demo. Or run skybridge serve in one terminal and "
    "skybridge send --type com.example.hello in another.",
    epilog="Exit codes: " + " · ".join(f"{code} {text}" for code, text in exits.MEANING.items()),
    pretty_exceptions_enable=False,
)


def verb(
    name: str, *examples: str, of: typer.Typer = root, json: str = asking.LINES
) -> Callable[[F], F]:
    """Registers a verb. ``json``: what its --json prints, where it asks a service."""

    def register(run: F) -> F:
        import inspect

        # Examples must not be wrapped.
        text = f"{inspect.cleandoc(run.__doc__ or '')}\n\n\b\nExamples:\n  " + "\n  ".join(examples)
        of.command(name=name, help=text)(asking.with_options(run, json))
        return run

    return register

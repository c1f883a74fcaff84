"""Groups of verbs: each with its docstring and its examples as help."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., None]")


def group(name: str, text: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def examples(*lines: str) -> str:
    """They must not be wrapped."""
    return "\b\nExamples:\n  " + "\n  ".join(lines)


def verb(app: typer.Typer, name: str, *lines: str) -> Callable[[F], F]:
    """Registers a verb of a group with its docstring and its examples."""

    def register(run: F) -> F:
        import inspect

        text = f"{inspect.cleandoc(run.__doc__ or '')}\n\n{examples(*lines)}"
        return app.command(name=name, help=text)(run)

    return register

"""How a verb is registered: in the root or in a group, with its docstring and its examples as help.

Options that several verbs share are a NamedTuple, which such a verb takes as one parameter.
"""

from __future__ import annotations

import functools
import inspect
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

from app import __version__
from app.cli import exits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

F = TypeVar("F", bound="Callable[..., None]")

_OPTION = type(typer.Option())


def option(text: str, *names: str, **more: Any) -> Any:
    """An option with its help. ``names``: its short name, or others than that of its parameter, which is
    ``--limit`` for ``limit``."""
    return typer.Option(*names, help=text or None, **more)


class _Verb(TyperCommand):
    """A verb that looks at its parameters when they are asked for: a command line names one of sixty verbs, and
    looking at all of them takes longer than most verbs run. It is registered by what makes its function."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._made = self.callback
        del self.params, self.callback

    @functools.cached_property
    def _whole(self) -> Any:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        if self._made is not None:
            alone.command(name=self.name)(self._made())
        return get_command(alone)

    @functools.cached_property
    def params(self) -> Any:  # type: ignore[override]  # as it was set
        return self._whole.params

    @functools.cached_property
    def callback(self) -> Any:  # type: ignore[override]  # likewise
        return self._whole.callback


class Group(typer.Typer):
    def verb(self, name: str, *examples: str, json: str = "") -> Callable[[F], F]:
        """Registers a verb. ``json``: what its --json prints, where that is not what other verbs print."""

        def register(run: F) -> F:
            # Examples must not be wrapped.
            text = f"{inspect.cleandoc(run.__doc__ or '')}\n\n\b\nExamples:\n  "
            added = self.command(name=name, cls=_Verb, help=text + "\n  ".join(examples))
            added(lambda: _expanded(run, json))
            return run

        return register


def group(name: str, text: str, **more: Any) -> Group:
    return Group(
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
verb = root.verb


def _version(wanted: bool) -> None:
    if wanted:
        print(f"skybridge {__version__}")
        raise typer.Exit


@root.callback()
def _root_options(
    version: Annotated[
        bool,
        option("Print the version.", "--version", callback=_version, is_eager=True),
    ] = False,
) -> None:
    del version


def _expanded(run: Callable[..., None], json: str) -> Callable[..., None]:
    """The verb with the options of each of its groups. A group is a parameter whose type is a NamedTuple,
    with an option for each field."""
    signature = inspect.signature(run, eval_str=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for each in signature.parameters.values():
        if hasattr(each.annotation, "_fields"):
            groups[each.name] = each.annotation
            parameters += _options(each.annotation, json)
        else:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    parameters = [each.replace(annotation=_named(each)) for each in parameters]

    @functools.wraps(run)
    def expanded(**given: Any) -> None:
        made = {name: kind(*map(given.pop, kind._fields)) for name, kind in groups.items()}
        run(**given, **made)

    expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return expanded


def _named(parameter: inspect.Parameter) -> Any:
    """Its type, with the long name of the option where that was left out."""
    kind, *about = get_args(parameter.annotation) or (parameter.annotation,)
    if not about or not isinstance(about[0], _OPTION):
        return parameter.annotation
    found = copy(about[0])
    names = [each for each in (found.default, *(found.param_decls or ())) if isinstance(each, str)]
    if not any(each.startswith("--") for each in names):
        found.default = (
            f"--{parameter.name.strip('_').replace('_', '-')}"  # where typer looks first
        )
        found.param_decls = names
    return Annotated[kind, found]


def _options(group: type[Any], json: str) -> Iterator[inspect.Parameter]:
    kinds = get_type_hints(group, include_extras=True)
    if json:
        kinds["as_json"] = Annotated[bool, option(json, "--json")]
    for name, default in group._field_defaults.items():
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=kinds[name], default=default
        )

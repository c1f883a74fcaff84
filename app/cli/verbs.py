"""Functions that register a command at the top level or in a command group. The help of a command
is its docstring with its examples.

Options that several commands share are the fields of a NamedTuple. Such a command has this
NamedTuple as one parameter.
"""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from copy import copy
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    TypeVar,
    get_args,
    get_type_hints,
)

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from app import __version__
from app.cli import exits, metavars, values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

F = TypeVar("F", bound="Callable[..., None]")

_OPTION = type(typer.Option())
_ARGUMENT = type(typer.Argument())


class _Line(NamedTuple):
    """The command line that runs.

    ``known`` are the options of the command, and ``given`` those of its command line, by parameter. An option is
    written as in the help.
    """

    known: Collection[str] = ()
    given: Mapping[str, str] = {}


_NO_LINE = _Line()
_LINE: ContextVar[_Line] = ContextVar("command line")


def option(text: str, *names: str, **more: Any) -> Any:
    """Return a typer option with the help ``text``.

    ``names`` are a short name, or long names. Long names replace the name that typer makes from the
    parameter, such as ``--limit`` for ``limit``. ``more`` is passed to typer.
    """
    return typer.Option(*names, help=text or None, **more)


def given_options(*parameters: str) -> list[str]:
    """Return those of the options of the running command that its command line has, such as ``--batch-size`` for
    the parameter ``batch_size``. Environment variables do not count.
    """
    given = _LINE.get(_NO_LINE).given
    return [given[each] for each in parameters if each in given]


def known_options() -> Collection[str]:
    """Return the options of the running command, such as ``--batch-size``."""
    return _LINE.get(_NO_LINE).known


class _LazyCommand(TyperCommand):
    """A command that reads the parameters of its function only when they are needed.

    Reading the parameters of all sixty commands would take longer than most commands run. So a
    command is registered with a function that returns its implementation.
    """

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
    def params(self) -> Any:  # type: ignore[override]
        return self._whole.params

    @functools.cached_property
    def callback(self) -> Any:  # type: ignore[override]
        return self._whole.callback

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. End the command if a value is empty, or is a number without an end."""
        parameters = {each.name: each for each in self.params}
        texts, _, _ = self.make_parser(ctx).parse_args(list(args))
        values.refuse_nothing(
            parameters, {each: texts[each] for each in texts if each in parameters}
        )
        try:
            rest = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if type(error) is not typer.BadParameter:  # such as a missing argument
                raise
            values.refuse_by(error, texts)
        values.refuse_infinite(parameters, ctx.params)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Meanwhile ``given_options`` returns what its command line has."""
        sources = {each: ctx.get_parameter_source(each.name) for each in self.params}
        typed = [
            each for each, source in sources.items() if source and source.name == "COMMANDLINE"
        ]
        known = [values.written(each) for each in self.params]
        before = _LINE.set(_Line(known, {each.name: values.written(each) for each in typed}))
        try:
            return super().invoke(ctx)
        finally:
            _LINE.reset(before)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - of click
        return ["[OPTIONS]", *(metavars.usage(each) for each in _arguments(self.params))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each with its metavar instead of its type in Python."""
        arguments = _arguments(self.params)
        options = [each for each in self.get_params(ctx) if each not in arguments]
        for heading, group in (("Arguments", arguments), ("Options", options)):
            records = [found for each in group if (found := each.get_help_record(ctx)) is not None]
            if group is arguments:
                records = [(name.partition(" <")[0], text) for name, text in records]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _arguments(params: Any) -> list[Any]:
    return [each for each in params if each.param_type_name == "argument"]


class SectionedGroup(TyperGroup):
    """The root group, whose help lists the commands in sections."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - of click
        """Return the names of the commands in the order of the sections; others come last."""
        sorted_in = [name for names in self.sections.values() for name in names]
        return sorted(self.commands, key=lambda name: (*sorted_in, name).index(name))

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - of click
        width = max(map(len, self.commands))
        for heading, names in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (name.ljust(width), self.commands[name].get_short_help_str(80))
                        for name in names
                    ]
                )


class CommandGroup(typer.Typer):
    """A typer application whose commands have examples and shared options."""

    def verb(self, name: str, *examples: str, json: str = "") -> Callable[[F], F]:
        """Return a decorator that registers a function as a command.

        Args:
            name: The name of the command.
            examples: Command lines for the help.
            json: The help of --json, if it differs from that of other commands.
        """

        def register(run: F) -> F:
            # \b keeps click from wrapping the examples.
            text = f"{inspect.cleandoc(run.__doc__ or '')}\n\n\b\nExamples:\n  "
            added = self.command(name=name, cls=_LazyCommand, help=text + "\n  ".join(examples))
            added(lambda: _expanded(run, json))
            return run

        return register


def group(name: str, text: str, **more: Any) -> CommandGroup:
    """Return a command group. ``text`` is its help; the first sentence is the summary in the list
    of commands.
    """
    return CommandGroup(
        name=name,
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,  # importing rich would take longer than printing the help
        context_settings={"help_option_names": ["-h", "--help"]},
        **more,
    )


root = group(
    "skybridge",
    "The CloudEvents bridge: HTTP in, Kafka or an embedded durable log, webhooks out.\n\n"
    "Try it: skybridge demo. Or run skybridge serve in one terminal and "
    "skybridge send --type com.example.hello in another.",
    cls=SectionedGroup,
    epilog="Exit codes: " + " · ".join(f"{code} {text}" for code, text in exits.MEANING.items()),
    pretty_exceptions_enable=False,
)
verb = root.verb


def _version(wanted: bool) -> None:
    """Print the version and exit, if ``--version`` is given."""
    if wanted:
        print(f"skybridge {__version__}")
        raise typer.Exit


@root.callback()
def _root_options(
    version: Annotated[
        bool,
        option("Print the version and exit.", "--version", callback=_version, is_eager=True),
    ] = False,
) -> None:
    del version


def _expanded(run: Callable[..., None], json: str) -> Callable[..., None]:
    """Return the function with one parameter per option, for typer.

    A parameter whose type is a NamedTuple is replaced by one option per field.
    """
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
    """Return the type of the parameter, with its metavar, and the long option name if it was left out."""
    kind, *about = get_args(parameter.annotation) or (parameter.annotation,)
    if not about or not isinstance(about[0], _OPTION | _ARGUMENT):
        return parameter.annotation
    found = copy(about[0])
    found.metavar = found.metavar or metavars.of(
        parameter.name, kind, is_argument=isinstance(found, _ARGUMENT)
    )
    if isinstance(found, _ARGUMENT):
        return Annotated[kind, found]
    names = [each for each in (found.default, *(found.param_decls or ())) if isinstance(each, str)]
    if not any(each.startswith("--") for each in names):
        found.default = (
            f"--{parameter.name.strip('_').replace('_', '-')}"  # where typer looks first
        )
        found.param_decls = names
    return Annotated[kind, found]


def _options(group: type[Any], json: str) -> Iterator[inspect.Parameter]:
    """Yield one parameter per field of an option group. ``json`` replaces the help of --json."""
    kinds = get_type_hints(group, include_extras=True)
    if json:
        kinds["as_json"] = Annotated[bool, option(json, "--json")]
    for name, default in group._field_defaults.items():
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=kinds[name], default=default
        )

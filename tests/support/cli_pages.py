"""Make the pages of docs/reference/cli from the commands of ``skybridge``: one page for each command or group of commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from typer.main import get_command

from app.cli import exits
from app.cli.commands import app
from app.cli.verbs import SectionedGroup
from markdown_writing import prose, slug, table

Command = Any
"""A command or a group of typer, which does not export its classes."""
Context = Any

PREFACE = """# Command line

This page lists the commands of `skybridge`, each with a page of its arguments, options and examples. `make docs` writes
these pages from the commands. `skybridge COMMAND --help` prints the same in a terminal.

Every option with an environment variable can be set by this variable.
"""
NOT_RUN = "<!-- not run: the examples need files and brokers of the reader; tests/unit/cli/test_help.py checks their options -->"
_EXTRA = re.compile(r"  \[(?P<extra>[^\]]*)\]$")


def pages() -> Mapping[str, str]:
    """Return the pages by their file name."""
    root = get_command(app)
    context = root.make_context("skybridge", [], resilient_parsing=True)
    made = {f"{name}.md": _page(command, context) for name, command in _commands(root, context)}
    return {"README.md": _readme(root), **made}


def _readme(root: Command) -> str:
    lines = [PREFACE]
    for heading, names in SectionedGroup.sections.items():
        rows = [
            (f"[`skybridge {name}`]({name}.md)", root.commands[name].get_short_help_str(80))
            for name in names
        ]
        lines.append(f"## {heading}\n\n{table(('command', 'use'), rows)}")
    codes = [(f"`{code}`", text) for code, text in exits.MEANING.items()]
    lines.append(f"## Exit codes\n\n{table(('code', 'meaning'), codes)}")
    return "\n".join(lines)


def _page(command: Command, context: Context) -> str:
    """Return the page of a command, or of a group with its commands."""
    own = command.make_context(command.name, [], parent=context, resilient_parsing=True)
    inner = list(_commands(command, own))
    title = f"# {own.command_path}\n\nThis page shows how to use `{own.command_path}`. `make docs` writes it from the command.\n"
    if not inner:
        return f"{title}\n{_body(command, own, 2)}"
    rows = [
        (f"[`{name}`](#{slug(f'{own.command_path} {name}')})", each.get_short_help_str(80))
        for name, each in inner
    ]
    listed = f"{prose(command.help)}\n\n{table(('command', 'use'), rows)}"
    parts = [
        f"## {own.command_path} {name}\n\n"
        + _body(each, each.make_context(name, [], parent=own, resilient_parsing=True), 3)
        for name, each in inner
    ]
    return "\n".join([title, listed, *parts])


def _body(command: Command, context: Context, level: int) -> str:
    """Return the description, examples, arguments and options of a command."""
    text, _, examples = command.help.partition("\n\n\b\nExamples:\n")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    lines = [prose(text), "", f"Usage: `{usage}`", ""]
    if examples:
        commands = "\n".join(line.removeprefix("  ") for line in examples.splitlines())
        lines += [NOT_RUN, "```bash", commands, "```", ""]
    params = command.get_params(context)
    for heading, kind in (("Arguments", "argument"), ("Options", "option")):
        rows = [_row(each, context) for each in params if each.param_type_name == kind]
        if rows:
            columns = (kind, "default", "environment variable", "meaning")
            lines.append(f"{'#' * level} {heading}\n\n{table(columns, rows)}")
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(parameter: Any, context: Context) -> tuple[str, str, str, str]:
    name, text = parameter.get_help_record(context)
    found = _EXTRA.search(text)
    extras = found["extra"].split("; ") if found else []
    given = {
        before: after for each in extras for before, colon, after in [each.partition(": ")] if colon
    }
    bounds = [each for each in extras if ": " not in each and each != "required"]
    meaning = " ".join([prose(_EXTRA.sub("", text)), *(f"Range: `{each}`." for each in bounds)])
    default = given.get("default", "")
    return (
        f"`{name.partition(' <')[0]}`",
        "required" if "required" in extras else (default and f"`{default}`"),
        f"`{given['env var']}`" if "env var" in given else "",
        meaning,
    )


def _commands(group: Command, context: Context) -> Iterator[tuple[str, Command]]:
    names = group.list_commands(context) if hasattr(group, "commands") else []
    return ((name, group.commands[name]) for name in names)

"""The help of every command, as a person reads it in a terminal of 80 columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from app.cli.commands import app
from app.cli.verbs import SectionedGroup

MOST = 55  # characters of a summary


def every(command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command and group."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from every(inner, (*words, name))


COMMANDS = [*every(get_command(app))]


def test_each_command_is_in_one_section() -> None:
    listed = [name for names in SectionedGroup.sections.values() for name in names]
    assert sorted(listed) == sorted(words[0] for words in COMMANDS if len(words) == 1)
    assert [*SectionedGroup.sections] == [
        *("Run", "Send and receive", "Subscriptions", "Investigate", "Configure", "Lake", "Store")
    ]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_in_words_and_whole(words: tuple[str, ...]) -> None:
    """No type of Python, no summary that is cut off."""
    text = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output
    assert text.startswith(f"Usage: skybridge{''.join(f' {each}' for each in words)} [OPTIONS]")
    options = text.partition("\nOptions:")[2].partition("\n\n")[0]
    assert not re.search(r"<\w|\blist\[", options)
    assert "…" not in text
    for name, summary in re.findall(r"(?m)^  ([a-z][a-z-]+)  +(\S.*)$", _listed(text)):
        assert len(summary) <= MOST, name
        assert summary.endswith("."), name


def _listed(text: str) -> str:
    """The lists of commands in a help."""
    return "\n".join(
        part
        for heading, part in re.findall(r"(?ms)^([A-Z][\w ]+):\n(.*?)(?=\n\n|\Z)", text)
        if heading == "Commands" or heading in SectionedGroup.sections
    )


def test_values_have_a_word_that_says_what_they_are() -> None:
    text = CliRunner().invoke(app, ["verify", "--help"]).output
    assert "Usage: skybridge verify [OPTIONS] [FILE]\n" in text
    for option in ("--key-file FILE", "--key TEXT", "--tolerance NUMBER"):
        assert f"  {option} " in text
    assert "--role gateway|worker " in CliRunner().invoke(app, ["serve", "--help"]).output


EXAMPLES = [
    line.strip()
    for words in COMMANDS
    for line in CliRunner()
    .invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    .output.partition("\n  Examples:\n")[2]
    .partition("\n\n")[0]
    .splitlines()
    if "skybridge " in line
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_only_options_of_its_command(example: str) -> None:
    """The pages of the reference show the same examples."""
    tokens = shlex.split(example, comments=True)
    tokens = tokens[tokens.index("skybridge") + 1 :]
    command = get_command(app)
    while tokens and tokens[0] in getattr(command, "commands", {}):
        command = command.commands[tokens.pop(0)]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    given = {
        token.partition("=")[0]
        for token in takewhile(lambda token: token not in {"|", ">", "<", "&&", ";"}, tokens)
        if re.match(r"--?[a-z]", token)
    }
    assert given - known - {"--help"} == set()


def test_there_are_examples() -> None:
    """Else the test above looks at nothing."""
    assert len(EXAMPLES) > 100

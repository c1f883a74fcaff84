"""The command line of a service, read without typer: as typer reads it, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli import serve, serving, verbs
from app.cli.serving import ServeArguments, parse_plain_arguments

BOTH = ("gateway", "worker")


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("", ServeArguments(None, BOTH)),
        ("--config a.yaml", ServeArguments(Path("a.yaml"), BOTH)),
        ("--config=a=b.yaml", ServeArguments(Path("a=b.yaml"), BOTH)),
        ("-c a.yaml", ServeArguments(Path("a.yaml"), BOTH)),
        ("-c a.yaml --config b.yaml", ServeArguments(Path("b.yaml"), BOTH)),
        ("--role gateway", ServeArguments(None, ("gateway",))),
        ("--role=worker -c a.yaml", ServeArguments(Path("a.yaml"), ("worker",))),
        ("--role gateway --role worker", ServeArguments(None, BOTH)),
        ("--wait-for-config -c a.yaml", ServeArguments(Path("a.yaml"), BOTH, waits=True)),
    ],
)
def test_the_usual_words_mean_what_typer_makes_of_them(
    words: str, given: ServeArguments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(serving.CONFIG, raising=False)
    assert parse_plain_arguments(words.split()) == given
    assert by_typer(words, monkeypatch) == given


def test_the_environment_may_name_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for file, found in (("env.yaml", Path("env.yaml")), ("", None)):
        monkeypatch.setenv(serving.CONFIG, file)
        assert parse_plain_arguments([]) == ServeArguments(found, BOTH) == by_typer("", monkeypatch)
        assert parse_plain_arguments(["-c", "a.yaml"]) == ServeArguments(Path("a.yaml"), BOTH)
        assert by_typer("-c a.yaml", monkeypatch) == ServeArguments(Path("a.yaml"), BOTH)


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "yes", "on", "0", "false", "no", "off"])
def test_the_environment_may_ask_to_wait(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(serving.WAITS_VARIABLE, text)
    waits = text.lower() in {"1", "true", "yes", "on"}
    given = ServeArguments(None, BOTH, waits)
    assert parse_plain_arguments([]) == given == by_typer("", monkeypatch)


@pytest.mark.parametrize(
    "words",
    [
        *("--json", "--help", "-h", "file", "--config", "--config=", "-c --role", "-c=a.yaml"),
        *("-ca.yaml", "--conf a.yaml", "--role queen", "--role", "--role=", "--"),
        "--wait-for-config=yes",
    ],
)
def test_all_else_is_for_typer(words: str) -> None:
    """Help, mistakes, and whatever is rare: one place says what is wrong."""
    assert parse_plain_arguments(words.split()) is None


def by_typer(words: str, monkeypatch: pytest.MonkeyPatch) -> ServeArguments:
    told: list[ServeArguments] = []
    monkeypatch.setattr(serve, "serve", lambda given, _: told.append(given))
    verbs.root(["serve", *words.split()], standalone_mode=False)
    (given,) = told
    return given

"""Names in a configuration or an argument begin no line of the error output, and none of them steers a terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli import main, printing
from app.telemetry.printable import printable

FORGED = "2026-11-27T00:00:00 ERROR forged"
UNSAFE = r"\e[31m\u202e\u200b\u2028\u0085\ufeff\u2060\n" + FORGED  # as YAML writes it
TEXT = "x\x1b[31m\u202e\u200b\u2028\x85\ufeff\u2060\n" + FORGED
FILE = f"""version: 1
brokers: {{"a..{UNSAFE}": {{kind: embedded, path: ./x}}}}
routes: [{{name: "r{UNSAFE}", to: {{broker: "b{UNSAFE}", topic: "t{UNSAFE}"}}}}]
"unknown{UNSAFE}": 1
"""
VERBS = (
    *(["serve", "--config"], ["serve", "--json", "--config"], ["check"], ["check", "--json"]),
    *(
        ["plan"],
        ["explain", "--type", "t", "--source", "/s", "--config"],
        ["asyncapi", "--config"],
        ["test"],
    ),
    ["producers", "test", TEXT, "--config"],
)

Said = Callable[[list[str]], str]


@pytest.fixture
def said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Said:
    """From a command line to all that it prints."""
    (tmp_path / "sky.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)

    def ended(words: list[str]) -> str:
        monkeypatch.setattr(sys, "argv", ["skybridge", *words])
        with pytest.raises(SystemExit):
            main()
        return "".join(capsys.readouterr())

    return ended


def is_safe(text: str) -> bool:
    unsafe = {"Cc", "Cf", "Zl", "Zp", "Cs"}
    marks = [each for each in text if each != "\n" and unicodedata.category(each) in unsafe]
    return not marks and not any(
        each.lstrip().startswith("2026-11-27") for each in text.split("\n")
    )


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_names_of_a_configuration(said: Said, words: list[str]) -> None:
    text = said([*words, "sky.yaml"])
    assert "forged" in text or "unknown" in text
    assert is_safe(text), text


@pytest.mark.parametrize(
    "words", [["subscriptions", "show", TEXT], ["find", TEXT], ["check", TEXT]]
)
def test_arguments(said: Said, words: list[str]) -> None:
    text = said([*words, "--server", "http://127.0.0.1:9"] if words[0] != "check" else words)
    assert is_safe(text), text


def test_every_part_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_error(TEXT, TEXT, [TEXT, TEXT])
    text = capsys.readouterr().err
    assert is_safe(text)
    assert len(text.splitlines()) == 4


def test_characters_of_no_width_are_shown() -> None:
    """They hide what differs between two names."""
    assert printable("a\u200bb\u2060c\u00add") == r"a\u200bb\u2060c\u00add"

"""The command line as a whole: it helps fast, and errors name the cure."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from app import __version__
from app.cli import exits, main
from app.cli.commands import app
from app.cli.options import needs_certificates

VERBS = ["serve", "send", "receive", "tail", "demo", "init", "check", "schema", "openapi"]
HEAVY = ("aiokafka", "fastapi", "httpx", "msgspec", "pydantic", "sqlalchemy", "uvicorn")

run = CliRunner().invoke


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_lists_every_verb() -> None:
    """--help teaches."""
    text = run(app, ["--help"]).output
    for verb in VERBS:
        assert f"\n  {verb} " in text
    assert "Exit codes" in text


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_explains_itself_with_examples(verb: str) -> None:
    """Nobody has to look for a manual first."""
    result = run(app, [verb, "--help"])
    assert result.exit_code == 0
    assert "Examples:" in result.output
    assert f"skybridge {verb}" in result.output


@pytest.mark.parametrize("verb", ["serve", "send", "receive", "tail", "check"])
def test_examples_parse(verb: str) -> None:
    """An example that does not parse teaches the wrong thing."""
    text = get_command(app).commands[verb].help  # type: ignore[attr-defined]
    for example in filter(str.strip, text.split("Examples:")[1].splitlines()):
        words = shlex.split(example.split(" | ")[0], comments=True)
        words = words[words.index("skybridge") + 1 :]
        command = get_command(app)
        context = command.make_context("skybridge", words, resilient_parsing=False)
        name, _, rest = command.resolve_command(context, words)  # type: ignore[attr-defined]
        assert name is not None
        command.commands[name].make_context(name, list(rest))  # type: ignore[attr-defined]


def test_help_imports_nothing_heavy() -> None:
    """Within 300 ms on a laptop: heavy parts are imported by the verbs that need them."""
    code = (
        "import sys; sys.argv = ['skybridge', '--help']\n"
        "from app.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_command_line_looks_at_the_options_of_its_own_verb_alone() -> None:
    """Those of all sixty verbs take 0.2 s, which is more than most verbs run."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert [each.name for each in commands["attempts"].params][:2] == ["subscription", "event"]
    looked_at = [name for name, each in commands.items() if "params" in vars(each)]
    assert [name for name in looked_at if not hasattr(commands[name], "commands")] == ["attempts"]


@pytest.mark.parametrize(
    ("address", "reads"),
    [
        ("http://127.0.0.1:8081", False),
        ("HTTP://gateway", False),
        ("https://gateway", True),
        ("httpx://gateway", True),
        ("", True),
    ],
)
def test_authorities_are_read_where_there_may_be_a_certificate(address: str, reads: bool) -> None:
    """To read them takes 50 ms; what is not plain HTTP never goes without."""
    assert needs_certificates(address) is reads


def test_version() -> None:
    """What a bug report needs first."""
    assert run(app, ["--version"]).output == f"skybridge {__version__}\n"


def test_check_prints_line_message_and_cure_and_exits_1(here: Path) -> None:
    """What an editor or a pipeline jumps to."""
    (here / "bad.yaml").write_text("version: 1\nbrokers:\n  log: {kind: embed, path: ./x}\n")
    result = run(app, ["check", "bad.yaml"])
    assert result.exit_code == exits.FAILED
    assert "bad.yaml:3: error" in result.output
    assert "cure" in result.output


def test_check_speaks_json(here: Path) -> None:
    """One object a finding."""
    import json

    (here / "bad.yaml").write_text("version: 1\nbrokers: {}\n")
    finding = json.loads(run(app, ["check", "bad.yaml", "--json"]).stdout.splitlines()[0])
    assert finding["level"] == "error"
    assert finding["line"] == 2


def test_send_needs_something_to_send() -> None:
    """An option that is missing is named with an example."""
    result = run(app, ["send"])
    assert result.exit_code == exits.SETUP
    assert "--type" in result.output


def test_send_to_nobody_exits_3() -> None:
    """Scripts can tell "refused" from "nobody there"."""
    arguments = ["send", "-t", "x", "--url", "http://127.0.0.1:1/events", "--retries", "0"]
    result = run(app, arguments)
    assert result.exit_code == exits.UNREACHABLE
    assert "skybridge serve" in result.output


@pytest.mark.parametrize("verb", [["send", "-t", "x", "--url"], ["tail", "events", "--server"]])
@pytest.mark.parametrize("address", ["nonsense", "ftp://x", "http://[", "http://x:99999"])
def test_an_address_that_is_none_is_an_option_that_is_wrong(verb: list[str], address: str) -> None:
    """Starting the service would not help."""
    result = run(app, [*verb, address])
    assert result.exit_code == exits.SETUP
    assert verb[-1] in result.output
    assert ".." not in result.output


def test_waiting_for_a_server_is_said() -> None:
    """Fifteen seconds of silence look like a hang; standard output stays for machines."""
    result = run(
        app, ["send", "-t", "x", "--url", "http://127.0.0.1:1", "--retries", "1", "--json"]
    )
    assert result.exit_code == exits.UNREACHABLE
    assert "retry in 0.5 s" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}\n\n{"a":',
            "events.jsonl line 3: ",
        ),
        (b'{"specversion":"1.0","id":"1"}', "events.jsonl: "),
        (b'[{"specversion":"1.0","id":"1"}]', "events.jsonl: "),
        (b"", "events.jsonl has no event"),
        (b"[]", "events.jsonl has no event"),
    ],
)
def test_a_file_that_cannot_be_sent_is_named_with_the_line(
    here: Path, content: bytes, said: str
) -> None:
    """Of ten thousand lines, somebody has to find the one."""
    (here / "events.jsonl").write_bytes(content)
    result = run(app, ["send", "events.jsonl", "--url", "http://127.0.0.1:1", "--retries", "0"])
    assert result.exit_code == exits.FAILED
    assert said in result.stderr


def test_tail_of_nobody_exits_3() -> None:
    """And says what else could be meant."""
    result = run(app, ["tail", "events", "--server", "http://127.0.0.1:1"])
    assert result.exit_code == exits.UNREACHABLE
    assert "--config" in result.output


def test_a_bad_configuration_is_told_line_by_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never a traceback for a typo."""
    (here / "bad.yaml").write_text("version: 1\nbrokers: {}\nrouts: []\n")
    monkeypatch.setattr(sys, "argv", ["skybridge", "serve", "--config", "bad.yaml"])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == exits.SETUP
    told = capsys.readouterr().err
    assert "line 3" in told
    assert "Traceback" not in told


def test_schema_is_json() -> None:
    """Editors read it."""
    import json

    assert json.loads(run(app, ["schema"]).stdout)["properties"]["routes"]

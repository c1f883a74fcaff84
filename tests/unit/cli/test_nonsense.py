"""A wrong value ends a command before it does anything: exit code 2, and one message with the option and a cure.

The options are those of the commands themselves, so a new option is tested without a line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from app.cli import exits, keys, main, printing, values
from app.cli.admin_client import AdminClient
from app.cli.commands import app
from app.interfaces.clock import SystemClock

NOWHERE = "http://127.0.0.1:1"
EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'
OWN_CHECKS = "pipeline"
"""The group whose options are checked after the configuration is read: only their form is tested here."""
NONSENSE = {
    "TIME": "yesterday",
    "POINT": "yesterday",
    "URL": "nowhere",
    "BROKER/TOPIC": "topic",
    "NAME=VALUE": "name",
}
"""A wrong value, by the word of the help for the right ones."""
NEEDED = {"NUMBER": "1", "TIME": "2026-01-01T00:00:00Z", "FILE": "e.json", "topic|none": "topic"}


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command with its words."""
    inner = getattr(command, "commands", {})
    if not inner:
        yield words, command
    for name, each in inner.items():
        yield from leaves(each, (*words, name))


COMMANDS = [*leaves(get_command(app))]


def wrong_values(words: tuple[str, ...], parameter: Any) -> Iterator[str]:
    """Yield values that this parameter cannot have."""
    if parameter.is_flag if parameter.param_type_name == "option" else False:
        return
    yield ""
    metavar = str(parameter.metavar or "")
    if metavar == "NUMBER":
        yield "many"
        yield "nan"
    if "|" in metavar and words != ("init",):
        yield "nonsense"
    if metavar in NONSENSE and words[0] != OWN_CHECKS:
        yield NONSENSE[metavar]


def line(command: Any, wrong: Any, value: str) -> list[str]:
    """Return the words after a command, with one wrong value."""
    found = []
    for each in command.params:
        if each is wrong or each.required:
            given = value if each is wrong else NEEDED.get(str(each.metavar), "x")
            is_option = each.param_type_name == "option"
            found += [max(each.opts, key=len), given] if is_option else [given]
    return found


@pytest.mark.parametrize(
    ("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS]
)
def test_a_wrong_value_names_its_option_and_a_cure(
    words: tuple[str, ...], command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKYBRIDGE_SERVER", NOWHERE)
    Path("e.json").write_text(EVENT)
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(printing, "print_error", lambda *words: said.append(words))
    for parameter in command.params:
        for value in wrong_values(words, parameter):
            given = line(command, parameter, value)
            assert command.main(given, standalone_mode=False) == exits.SETUP, given
            message, cure = said.pop()
            assert values.written(parameter) in message, (given, message)
            assert cure, given
            assert said == []


def test_the_options_were_looked_at() -> None:
    """Else the test above looks at nothing."""
    tried = [
        value
        for words, command in COMMANDS
        for parameter in command.params
        for value in wrong_values(words, parameter)
    ]
    assert len(tried) > 300
    assert {*NONSENSE.values(), "nan", "many", "nonsense"} <= {*tried}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("send -t t -a type=b", "--attribute type=b sets an attribute that has the option --type. cure Write --type b."),
        ("send -t t -a datacontenttype=text/plain", "cure Write --content-type text/plain."),
        ("send -t t -a a=1 -a a=2", "--attribute a=2 repeats the attribute a."),
        ("send -t t --time 2026-02-30T00:00:00Z", "--time 2026-02-30T00:00:00Z is not a time."),
        ("send /nowhere/e.json", "/nowhere/e.json cannot be read: No such file or directory."),
        ("find 1 --since 2026-01-01T00:00:00", "--since 2026-01-01T00:00:00 is not a time."),
        ("find 1 --since 99999999999999999999", "is not a time."),
        ("status --server http://h:0", "--server http://h:0 is not the URL of a server."),
        ("status --server http://h:99999", "--server http://h:99999 is not the URL of a server."),
        ("tail t --from latest-x", "--from latest-x is not a point of a topic."),
        ("tail t --from 0@", "--from 0@ is not a point of a topic."),
        ("receive --retry-after soon --fail-first 1", "--retry-after soon is not a value of the header Retry-After."),
        ("receive --retry-after 3", "--retry-after has no effect, because every answer is a success."),
        ("receive --host 192.0.2.1", "--host: cannot listen on 192.0.2.1:9000: "),
        (f"receive --host {'a' * 64}.example", "--host: cannot listen on "),
        ("receive --secret-file /nowhere/k", "/nowhere/k cannot be read: No such file or directory."),
        ("secret --out /nowhere/x", "--out /nowhere/x cannot be written: No such file or directory. cure Name a file"),
        ("asyncapi --out /nowhere/x", "--out /nowhere/x cannot be written: No such file or directory. cure Name a file"),
        ("verify --key whsec_ --headers /nowhere/x --body /nowhere/y", "/nowhere/x cannot be read"),
        ("subscriptions replay b --cancel --from earliest", "--from has no effect, because --cancel starts no replay."),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the command ``skybridge`` reports it, with the errors that the code below the commands raises."""
    monkeypatch.setattr("sys.argv", ["skybridge", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == exits.SETUP
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (["find", "1", "--since", "1h"], "since"),
        (["audit", "--until", "1h"], "until"),
        (["dead-letters", "count", "--since", "1h30m"], "since"),
        (["topics", "offsets", "t", "--time", "2d"], "time"),
    ],
)
def test_a_duration_is_a_time_that_long_ago(
    words: list[str], query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API knows times alone; only one of the commands knew durations."""
    asked: list[Any] = []

    def get(_self: Any, _path: str, given: Any = None) -> Any:
        asked.append(given)
        raise typer.Exit(7)

    monkeypatch.setattr(AdminClient, "get", get)
    assert CliRunner().invoke(app, words).exit_code == 7
    ago = SystemClock().now() * 1000 - float(asked[0][query])
    assert 3_500_000 < ago < 173_000_000


def test_a_key_that_others_can_read_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "billing.secret"
    file.write_text("whsec_" + "QUFB" * 8)
    for mode, warned in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        keys.read_keys(keys.texts_of("--secret-file", [file]))
        said = " ".join(capsys.readouterr().err.split())
        assert (f"warning --secret-file {file} has a secret" in said) is warned

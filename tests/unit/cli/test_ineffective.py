"""An option that would have no effect is refused, not ignored in silence: all of a command line at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import exits
from app.cli.commands import app

EVENT = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'
NOWHERE = "http://127.0.0.1:1"
FILE = "e.json"


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("send e.json --id 7 --subject s -d x -n 3", "--id, --subject, --data and --count have no effect"),
        ("send e.json --source /shop", "--source has no effect"),
        ("send e.json --time 2026-01-01T00:00:00Z -a a=b --content-type text/plain", "--time, --attribute and"),
        ("send -t t --batch-size 3", "--batch-size has no effect, because only --mode batch"),
        ("explain e.json --id 7 -a a=b", "--id and --attribute have no effect"),
        ("explain -t t --as-from log/events --route all", "--route has no effect"),
        ("explain -t t --as-from log/events --producer shop", "--producer has no effect"),
        (f"explain -t t --config c.yaml --server {NOWHERE}", "--server has no effect"),
        ("tail --subscription s --broker main", "--broker has no effect"),
        ("tail events --config c.yaml --token x", "--token has no effect"),
        ("receive --fail-status 500", "--fail-status has no effect"),
        ("subscriptions create --file e.json --id a --start latest", "--id and --start have no effect"),
        ("retry billing --key k --event e", "--event has no effect"),
        ("status --drained 1 --interval 3", "--interval has no effect"),
        ("verify e.json --headers e.json --body e.json --key x", "FILE has no effect"),
    ],
)  # fmt: skip
def test_an_option_without_an_effect_is_refused(
    words: str, refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text(EVENT)
    done = CliRunner().invoke(app, words.split())
    assert (done.exit_code, done.exception.__class__) == (exits.SETUP, SystemExit)
    told = " ".join(done.stderr.split())
    assert refused in told
    assert "cure Remove" in told


def test_a_variable_of_the_environment_is_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """SKYBRIDGE_SERVER stands in the environment of an operator all day."""
    monkeypatch.setenv("SKYBRIDGE_SERVER", NOWHERE)
    done = CliRunner().invoke(app, ["explain", "-t", "t", "--config", "absent.yaml"])
    assert "no effect" not in done.output

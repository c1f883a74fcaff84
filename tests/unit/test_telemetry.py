"""What the service writes to standard error."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from app.telemetry import set_up_logging


@pytest.fixture(autouse=True)
def _handlers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_every_line_for_machines_is_one_json_object(capfd: pytest.CaptureFixture[str]) -> None:
    """Quotes, line ends and tracebacks come in messages too; a collector must not choke on them."""
    set_up_logging("info", as_json=True)
    log = logging.getLogger("part")
    log.info('said "no"\nand %s', "left")
    try:
        int('a "cause"')
    except ValueError:
        log.exception("failed")

    first, second = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert first["message"] == 'said "no"\nand left'
    assert (first["level"], first["part"]) == ("INFO", "part")
    assert second["message"] == "failed"
    assert "ValueError: " in second["error"]
    assert '"cause"' in second["error"]


def test_lines_for_people_keep_the_level_and_leave_out_what_is_below_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    set_up_logging("warning", as_json=False)
    logging.getLogger("part").info("quiet")
    logging.getLogger("part").warning("loud")
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("WARNING part  loud")


def test_fields_of_an_entry_are_fields_for_machines_and_words_for_people(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """An id is looked for by its name, not by a pattern over sentences."""
    for as_json in (True, False):
        set_up_logging("info", as_json=as_json)
        logging.getLogger("part").info("dead letter", extra={"event_id": "A-1", "status": 415})
    machines, people = capfd.readouterr().err.splitlines()
    entry = json.loads(machines)
    assert list(entry) == ["at", "level", "part", "message", "event_id", "status"]
    assert (entry["event_id"], entry["status"]) == ("A-1", 415)
    assert people.endswith("INFO    part  dead letter  event_id='A-1'  status=415")


HOSTILE = "\n2026-01-01 INFO x\r\x1b[31m\x9b\x85\u2028\u2029\u202e\u2066\u200f\ud83d\x7f\0"
"""What a client can put into the name of a topic or a user."""


def _lines(err: str) -> list[str]:
    assert not [each for each in err if each != "\n" and not each.isprintable()]
    return err.splitlines()


@pytest.mark.parametrize("as_json", [True, False])
def test_a_name_that_a_client_chose_forges_no_line_and_steers_no_terminal(
    capfd: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """Each entry is one line, whichever field holds the name; a traceback below it is indented."""

    class Odd:
        def __repr__(self) -> str:
            return HOSTILE

    set_up_logging("info", as_json=as_json)
    log = logging.getLogger(f"part{HOSTILE}")
    log.warning("topic %s", HOSTILE, extra={"topic": HOSTILE, f"name{HOSTILE}": Odd()})
    (line,) = _lines(capfd.readouterr().err)
    if as_json:
        entry = json.loads(line)
        assert (entry["part"], entry["message"]) == (f"part{HOSTILE}", f"topic {HOSTILE}")
        assert (entry["topic"], entry[f"name{HOSTILE}"]) == (HOSTILE, HOSTILE)
    else:
        assert "topic \\n2026-01-01 INFO x\\r\\u001b[31m\\u009b\\u0085\\u2028" in line
    try:
        {}[HOSTILE, Odd()]
    except KeyError:
        log.exception("failed")
    first, *others = _lines(capfd.readouterr().err)
    assert "failed" in first
    assert all(each.startswith("  ") for each in others)


def test_what_people_write_is_shown_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    """Only what is unsafe is escaped: letters of all scripts and joined emojis are not."""
    set_up_logging("info", as_json=False)
    text = "Zoë 你好 שלום \N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER} \\n"
    logging.getLogger("part").info(text)
    assert capfd.readouterr().err.endswith(f"part  {text}\n")


CRASHES = """
import logging, threading, warnings
from app.telemetry import set_up_logging
set_up_logging("info", as_json=True)

class Broken:
    def __del__(self):
        raise ValueError("unraisable")

def fail():
    raise ValueError("thread")

Broken()
thread = threading.Thread(target=fail, name="worker-1")
thread.start()
thread.join()
warnings.warn("a library warns")
logging.getLogger("part").info("%d", "no number")
set_up_logging("info", as_json=False)
set_up_logging("info", as_json=True)
raise KeyError("end")
"""


def test_what_python_itself_would_print_is_json() -> None:
    """Errors of threads and finalizers, warnings, entries that cannot be formatted, and the end."""
    done = subprocess.run(
        [sys.executable, "-c", CRASHES], capture_output=True, text=True, check=False
    )
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout) == (1, "")
    assert [(each["level"], each["part"]) for each in found] == [
        ("ERROR", "skybridge.crash"),
        ("ERROR", "skybridge.crash"),
        ("WARNING", "py.warnings"),
        ("ERROR", "part"),
        ("CRITICAL", "skybridge.crash"),
    ]
    assert [("ValueError" in each.get("error", "")) for each in found[:2]] == [True, True]
    assert found[1]["message"] == "thread worker-1 ends"
    assert "a library warns" in found[2]["message"]
    assert found[3]["entry"] == "%d"
    assert found[4]["message"] == "the process ends: KeyError"

"""With ``log.format: json`` every line of the process is one JSON object, on both outputs.

A collector of logs parses each line. A line that is not JSON is lost, or it ends the parser.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from configuration import Settings, configuration
from forked import SKYBRIDGE, completed
from service_process import ServiceProcess
from waiting import wait_until

JSON = {"format": "json"}
HALF = '{version: 1, log: {format: "json"}, routes: [}'
BLOCK = "version: 1\nlog:\n  # for the collector\n  level: info\n  format: json\nroutes: [\n"


def entries(text: str) -> list[dict[str, Any]]:
    """Return the entry of each line. Fail with the line that is not JSON."""
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            pytest.fail(f"not JSON: {line!r}")
    return found


def warned(folder: Path, **changes: Any) -> Settings:
    """Return a configuration with a warning: a route that no event reaches."""
    first, second = ({"name": name, "to": {"broker": "log", "topic": name}} for name in "ab")
    return configuration(folder, routes=[first, second], log=JSON, **changes)


@pytest.fixture
def service(tmp_path) -> ServiceProcess:
    """The program itself, which a forked process is not: imports may warn too."""
    made = ServiceProcess(warned(tmp_path), tmp_path)
    made.program = [SKYBRIDGE]
    return made


@pytest.mark.parametrize(
    "environ",
    [
        {},
        pytest.param({"PYTHONTRACEMALLOC": "1"}, marks=pytest.mark.nightly),  # five times the work
    ],
    ids=["warnings", "warnings with their places"],
)
def test_every_line_of_a_life_is_json(service, environ):
    """A start with warnings, a reload that is refused, one that is applied, a stop."""
    with service.ended():
        service.start({"PYTHONWARNINGS": "always", **environ})
        valid = service.file.read_bytes()
        service.file.write_bytes(b"version: 1\nroutes: [\n")
        service.send_signal(signal.SIGHUP)
        wait_until(lambda: "is refused" in service.log.read_text(), "a refused reload")
        service.file.write_bytes(valid)
        service.send_signal(signal.SIGHUP)
        wait_until(lambda: "is applied" in service.log.read_text(), "a reload")
        assert service.stop() == 0
    found = entries(service.log.read_text())
    assert {"at", "level", "part", "message"} <= set.intersection(*map(set, found))
    (start,) = [each for each in found if each["message"] == "the service accepts requests"]
    assert start["events"] == f"{service.events_url}/events"
    assert start["admin"] == service.admin_url
    assert "a -> log/a" in start["routes"]
    warnings = [each for each in found if each["level"] == "WARNING" and "routes[1]" in str(each)]
    assert warnings[0]["setting"].startswith("routes[1]")


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (HALF, {}),
        (BLOCK, {}),
        ("log: {format: json}\nversion: 1\nno_such: 1\n", {}),
        ("version: 1\nroutes: [\n", {"SKYBRIDGE_LOG__FORMAT": "json"}),
        (None, {"SKYBRIDGE_LOG__FORMAT": "json"}),
    ],
    ids=["flow", "block", "unknown setting", "variable", "no file"],
)
def test_a_refused_start_is_json(tmp_path, text, environ):
    """Also where the file cannot be parsed, or cannot be read."""
    file = tmp_path / "skybridge.yaml"
    if text is not None:
        file.write_text(text)
    done = completed("serve", "--config", str(file), cwd=tmp_path, env={**os.environ, **environ})
    assert done.returncode == 2
    assert done.stdout == ""
    (entry,) = entries(done.stderr)
    assert entry["level"] == "ERROR"
    assert entry["message"].startswith(f"{file}: ")
    assert entry["findings"]


def test_a_fault_that_shows_when_the_service_starts_is_json(tmp_path):
    """The configuration is valid, and its port is in use."""
    one = ServiceProcess(configuration(tmp_path, log=JSON), tmp_path)
    with one.ended():
        one.start()
        (tmp_path / "other").mkdir()
        other = configuration(tmp_path / "other", log=JSON, server=one.settings["server"])
        two = ServiceProcess(other, tmp_path / "other")
        two.begin()
        wait_until(lambda: not two.running, "the end of the second service")
    found = entries(two.log.read_text())
    (last,) = [each for each in found if each["level"] == "ERROR"]
    assert last["setting"].startswith("server.")
    assert last["cure"]


def test_a_file_for_people_is_refused_in_words(tmp_path):
    """The control: the form is that of the file, not of a word in it."""
    file = tmp_path / "skybridge.yaml"
    file.write_text(
        "version: 1\nformat: json\nlogs: {format: json}\nlog: {level: info}\nroutes: [\n"
    )
    done = completed("serve", "--config", str(file), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error ")

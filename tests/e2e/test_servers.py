"""`make kafka` and `make servers ARGS="kafka rabbitmq"`: what they start, and what they print to be pasted."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import persistent_server
import servers
from free_ports import free_ports
from kafka_install import CHECKOUT, Missing, install
from kafka_server import KafkaServer
from persistent_server import PersistentServer
from sending import event_headers
from servers import Part, Server
from service_process import ServeProcess
from skipping import skip_or_fail
from waiting import wait_until


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PersistentServer]:
    """A Kafka that other tests do not see, as the only server that the command knows."""
    try:
        install()
    except Missing as missing:
        skip_or_fail(missing)
    monkeypatch.setattr(persistent_server, "SERVERS", tmp_path)
    standing = PersistentServer(KafkaServer, install)
    known = {"kafka": Server(Part("Apache Kafka", install), standing)}
    monkeypatch.setattr(servers, "SERVERS", known)
    yield standing
    standing.stop()


@pytest.mark.kafka
@pytest.mark.nightly
def test_what_is_printed_runs_as_pasted(
    tmp_path: Path, apart: PersistentServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """The commands alone are on standard output, and Skybridge stores an event in the Kafka that was started."""
    assert servers.main(["kafka"]) == 0
    printed = capfd.readouterr()
    assert f"Apache Kafka answers on {apart.address()}" in printed.err
    (tmp_path / ".venv").symlink_to(CHECKOUT / ".venv")
    events, admin = free_ports(2)
    environ = {
        "SKYBRIDGE_SERVER__EVENTS__PORT": str(events),
        "SKYBRIDGE_SERVER__ADMIN__PORT": str(admin),
        "SKYBRIDGE_TIMEOUTS__NOT_READY": "0s",
    }
    with subprocess.Popen(
        ["bash", "-euc", f"{printed.out}\n:"],  # `:` keeps bash, so that its group is ended
        cwd=tmp_path,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        try:
            service = ServeProcess(None, tmp_path, admin)
            wait_until(lambda: service.answers("/readyz") == 200, "the pasted service", 120)
            accepted = service.ask("POST", "/events", "{}", event_headers("1"), port=events)
            assert accepted[0] == 202
            found = service.get("/v1/topics/kafka/events/records")
            assert [each["event"]["id"] for each in found["messages"]] == ["1"]
        finally:
            os.killpg(shell.pid, signal.SIGINT)
    assert servers.main(["--stop"]) == 0
    assert apart.address() is None


def test_a_server_that_is_not_known_is_refused_with_the_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as refused:
        servers.main(["kafak"])
    assert (
        refused.value.code
        == "There is no server kafak. Cure: name kafka, rabbitmq, pulsar, postgresql."
    )


@pytest.mark.parametrize(
    ("goal", "arguments"),
    [
        (["kafka"], "kafka "),
        (["kafka", "ARGS=--stop"], "kafka --stop"),
        (["servers", "ARGS=kafka rabbitmq"], "kafka rabbitmq"),
        (["servers", "ARGS=--stop"], "--stop"),
        (["test", "ARGS=-x tests/unit"], ""),
    ],
    ids=" ".join,
)
def test_make_passes_its_arguments_to_the_command(goal: list[str], arguments: str) -> None:
    """And those of ``make test``, which installs the servers, to pytest alone."""
    command = ["make", "--dry-run", "--old-file=.venv/.synced", "--old-file=.venv/.runs", *goal]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    (line,) = (each for each in done.stdout.splitlines() if "support/servers.py" in each)
    assert line.partition("servers.py ")[2].strip() == arguments.strip()

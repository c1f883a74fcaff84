"""``skybridge serve --wait-for-config`` waits for a configuration that it can use, instead of ending.

A supervisor such as Kubernetes restarts a process that ends, later each time. A process that waits
takes a corrected file at once, and its probes name the fault meanwhile.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from configuration import configuration, merged, written
from service_process import ServiceProcess
from waiting import wait_until

WAITS = "--wait-for-config"
LEVEL = {"log": {"level": "INFO"}}  # in capitals, which the model refuses
TOKEN = "token-of-the-operator"


def waiting(folder: Path, **changes) -> ServiceProcess:
    """Return a service, not started yet, whose file has a fault."""
    service = ServiceProcess(merged(configuration(folder), changes), folder, WAITS)
    written(merged(service.settings, LEVEL), folder)
    return service


def shows(service: ServiceProcess, cause: str) -> bool:
    """Return True if readiness has the cause. Between two attempts the listener is closed for a moment."""
    try:
        return cause in service.ask("GET", "/readyz")[1]
    except OSError:
        return False


def refused(service: ServiceProcess) -> bool:
    """Return True if the process answers its probes and is not ready."""
    return service.answers("/readyz") == 503


def test_a_corrected_file_is_taken_by_the_process_that_waits(tmp_path):
    service = waiting(tmp_path)
    with service.ended():
        service.begin()
        wait_until(lambda: refused(service), "a process that waits")
        pid = service.pid
        assert service.answers("/healthz") == 200
        for path in ("/readyz", "/readyz?role=gateway", "/readyz?role=worker"):
            status, text = service.ask("GET", path)
            assert status == 503
            assert "log.level" in text
        assert '"roles":{"gateway"' in service.ask("GET", "/readyz?role=gateway")[1]
        metrics = service.ask("GET", "/metrics")[1].splitlines()
        assert 'skybridge_ready{role="gateway"} 0.0' in metrics
        assert "skybridge_config_last_reload_successful 0.0" in metrics
        status, text = service.ask("GET", "/v1/config")
        assert (status, json.loads(text)["type"]) == (503, "urn:skybridge:problem:not-now")
        assert "log.level" in json.loads(text)["detail"]
        service.write()
        wait_until(service.ready, "a ready service")
        assert service.send("1", type="com.example.order")[0] == 202
        assert service.pid == pid
        assert service.stop() == 0
    text = service.log.read_text()
    assert text.count("log.level") == 1
    assert "the service waits for a corrected file" in text


@pytest.mark.parametrize("text", [None, "version: 1\nroutes: [\n"], ids=["missing", "cut off"])
def test_a_file_that_cannot_be_read_is_waited_for(tmp_path, text):
    """The admin listener is then where the environment has it."""
    service = ServiceProcess(configuration(tmp_path), tmp_path, WAITS)
    service.file.unlink()
    if text is not None:
        service.file.write_text(text)
    with service.ended():
        service.begin({"SKYBRIDGE_SERVER__ADMIN__PORT": str(service.admin_port)})
        wait_until(lambda: refused(service), "a process that waits")
        service.write()
        wait_until(service.ready, "a ready service")
        assert service.stop() == 0


def test_a_process_that_waits_ends_by_a_signal(tmp_path):
    service = waiting(tmp_path)
    with service.ended():
        service.begin()
        wait_until(lambda: refused(service), "a process that waits")
        assert service.stop() == 0


def test_a_fault_of_the_start_is_waited_for_too(tmp_path):
    """The file is valid, but another process has the port. SIGHUP tries at once."""
    first = ServiceProcess(configuration(tmp_path), tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    events = first.settings["server"]["events"]
    service = ServiceProcess(configuration(other, server={"events": events}), other, WAITS)
    with first.ended(), service.ended():
        first.start()
        service.begin()
        wait_until(lambda: shows(service, "server.events.port"), "a process that waits")
        assert first.stop() == 0
        service.send_signal(signal.SIGHUP)
        wait_until(service.ready, "a ready service")
        assert service.send("1", type="com.example.order")[0] == 202
        assert service.stop() == 0


@pytest.mark.parametrize("token", [TOKEN, "${file:/no/such/file}"], ids=["a token", "no token"])
def test_causes_are_shown_to_callers_with_the_token_only(tmp_path, token):
    """Other machines reach this listener, so a file without a usable token opens nothing."""
    service = waiting(tmp_path, server={"admin": {"host": "0.0.0.0", "token": token}})
    right = {"Authorization": f"Bearer {TOKEN}"}
    with service.ended():
        service.begin()
        wait_until(lambda: refused(service), "a process that waits")
        assert service.ask("GET", "/readyz")[1] == '{"ready":false}'
        assert service.ask("GET", "/metrics")[0] == 401
        status, text = service.ask("GET", "/readyz", headers=right)
        assert status == (503 if token == TOKEN else 401)
        assert ("log.level" in text) == (token == TOKEN)
        assert service.stop() == 0

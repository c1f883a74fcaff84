"""The parts of the laboratory that need no cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path

import base_images
import figures_page
import go_modules
import own_image
import pod_load
import pytest
from laboratory import remove_leftovers
from release import merged
from traffic import Row
from versions import cache

import verifier
from configuration import configuration, subscription
from free_ports import free_ports
from pages import CHECKOUT
from server_process import is_free
from service_process import ServiceProcess
from waiting import wait_until

DESCRIPTION = {
    "Go": "1.26.0",
    "Require": [
        {"Path": "go.etcd.io/etcd/server/v3", "Version": "v3.7.0"},
        {"Path": "github.com/spf13/cobra", "Version": "v1.10.0"},
        {"Path": "k8s.io/api", "Version": "v0.0.0"},
    ],
    "Replace": [
        {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
        {"Old": {"Path": "example.com/x"}, "New": {"Path": "example.com/y"}},
    ],
}


def test_a_library_of_kubernetes_is_replaced_by_its_published_version():
    """Kubernetes' own go.mod leads to folders that another module does not have."""
    text = go_modules.of_kubernetes("1.37.2", json.dumps(DESCRIPTION), "node")
    lines = text.splitlines()
    assert "replace k8s.io/api => k8s.io/api v0.37.2" in lines
    assert "require go.etcd.io/etcd/server/v3 v3.7.0" in lines
    assert "require k8s.io/kubernetes v1.37.2" in lines
    assert "example.com" not in text


def test_the_base_images_are_those_of_the_dockerfile():
    """Names of stages are no images, and arguments have their defaults."""
    names = base_images.base_names((CHECKOUT / "Dockerfile").read_text())
    assert names == [
        "docker.io/library/node:22-bookworm-slim",
        "docker.io/library/python:3.11-slim-bookworm",
    ]


def test_an_own_image_has_the_program_as_its_entry_point(tmp_path):
    """In the format that containerd imports."""
    program = tmp_path / "pause"
    program.write_bytes(b"program")
    own_image.write(tmp_path / "image", "localhost/pause:1", program)
    with tarfile.open(tmp_path / "image") as image:
        (manifest,) = json.load(image.extractfile("manifest.json"))
        config = json.load(image.extractfile(manifest["Config"]))
    assert manifest["RepoTags"] == ["localhost/pause:1"]
    assert config["config"]["Entrypoint"] == ["/program"]


def test_values_merge_like_those_of_helm():
    """Maps are merged, lists are replaced."""
    values = {"config": {"log": {"level": "info"}, "routes": [1]}, "topology": "split"}
    assert merged(values, {"config": {"routes": [2]}}) == {
        "config": {"log": {"level": "info"}, "routes": [2]}, "topology": "split",
    }  # fmt: skip


def row(**changes) -> Row:
    plain = Row("SIGKILL", "split", 1000, 0, 1, 0, 2, 3.25, may_refuse=True)
    return plain._replace(**changes)


def test_a_row_replaces_the_earlier_row_of_its_scenario(tmp_path):
    """Rows of other scenarios stay, and so does the text around the table."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nBefore.\n")
    figures_page.write(page, [row(), row(topology="single", accepted=5000)])
    figures_page.write(page, [row(accepted=1234, note="a note")])
    text = page.read_text()
    assert text.startswith("# Page\n\nBefore.\n")
    assert "| split | SIGKILL (a note) | 1,234 | 0 | 1 | 0 | 2 | 3.2 s |" in text
    assert "| single | SIGKILL | 5,000 |" in text
    assert text.count("SIGKILL") == 2


def test_a_scenario_has_no_parentheses(tmp_path):
    """Its row would replace that of another scenario with the same beginning."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(ValueError, match="belongs to the note"):
        figures_page.write(page, [row(scenario="a pod waits (`Parallel`)")])
    assert page.read_text() == "# Page\n"


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({}, []),
        ({"lost": 1}, ["1 lost"]),
        ({"order": 2}, ["2 out of order"]),
        ({"order": 2, "may_reorder": True}, []),
        ({"may_refuse": False}, ["2 refused"]),
        ({"may_refuse": False, "refused": 0}, []),
    ],
)
def test_a_row_names_the_broken_promises(changes, faults):
    """A repeated event breaks none."""
    assert row(**changes).faults() == faults


@pytest.fixture
def load(tmp_path):
    """Run the program of the load beside the test, and yield what asks it and its webhook."""
    hook, control = free_ports(2)
    own = {"LOAD_HOST": "127.0.0.1", "LOAD_HOOK": str(hook), "LOAD_CONTROL": str(control)}
    environ = {**os.environ, **own, "PYTHONPATH": str(Path(verifier.__file__).parent)}
    with subprocess.Popen([sys.executable, pod_load.__file__], env=environ) as process:
        try:
            wait_until(lambda: not is_free(control), "the load listens")
            yield (lambda what: _asked(control, what)), f"http://127.0.0.1:{hook}/hook"
        finally:
            process.send_signal(signal.SIGKILL)


def _asked(port: int, what: str) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{what}", timeout=30) as answer:
        return json.load(answer)


def _settled(progress: dict) -> bool:
    return not progress["sending"] and not progress["outstanding"]


def test_the_load_counts_what_a_killed_service_refused(tmp_path, load):
    """A control of the scenarios: a kill shows as refused attempts, and nothing is lost."""
    ask, hook = load
    settings = configuration(tmp_path, subscriptions=[subscription("hook", hook)])
    service = ServiceProcess(settings, tmp_path)
    with service.ended():
        service.start()
        ask(f"start?url=http://127.0.0.1:{service.events_port}/events&rate=200")
        wait_until(lambda: ask("progress")["arrived"] > 50, "deliveries")
        service.kill()
        wait_until(lambda: ask("progress")["refused"], "refused attempts")
        service.start()
        before = ask("progress")["arrived"]
        wait_until(lambda: ask("progress")["arrived"] > before, "deliveries after the kill")
        ask("stop")
        wait_until(lambda: _settled(ask("progress")), "all accepted events")
        report = ask("report")
    assert report["lost"] == report["order"] == 0
    assert report["refused"] == sum(report["answers"].values()) - report["answers"]["202"] > 0
    assert report["longest_gap"] > 0.1


def test_what_is_left_of_a_killed_laboratory_is_removed_and_running_ones_stay(
    tmp_path, monkeypatch
):
    """A process may have several laboratories: their folders end with its number and theirs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folders = [
        cache() / f"run-{process}-{number}"
        for process in (ended.pid, os.getpid())
        for number in (1, 2)
    ]
    for folder in folders:
        (folder / "node1").mkdir(parents=True)
    remove_leftovers()
    assert [folder.exists() for folder in folders] == [False, False, True, True]

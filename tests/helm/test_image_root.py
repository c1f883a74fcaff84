"""The image's stages in bare Debians, and its service as a container engine would run it: process 1, without root,
on a root file system that cannot be written. docs/guides/deploy.md lists what that leaves open."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import bare_debian
from dockerfile import copy_into, instructions, variables
from kafka_install import Missing
from pages import CHECKOUT
from waiting import wait_until

pytestmark = [pytest.mark.nightly]

VOLUME = "/var/lib/skybridge"
USER = 10001
WITHIN = 120.0
GRACE = 105.0  # seconds: the chart's, with the defaults
CONFIG = """
version: 1
installation: image
server: {events: {access: open}}  # the image listens on every address
store: {kind: sqlite, path: /var/lib/skybridge/store.db}
brokers: {log: {kind: embedded, path: /var/lib/skybridge/log}}
routes: [{name: everything, to: {broker: log, topic: events}}]
"""
ASK = """
import sys, urllib.request
event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "t"}
headers = event if sys.argv[1].endswith("/events") else {}
asked = urllib.request.Request(sys.argv[1], headers=headers, method="POST" if headers else "GET")
print(urllib.request.urlopen(asked, timeout=60).status)
"""


class Image(NamedTuple):
    """``environ``: the variables that its stages leave set. ``state``: what is mounted as its volume."""

    root: Path
    state: Path
    environ: dict[str, str]

    def run(self, *words: str) -> subprocess.Popen[bytes]:
        user = f"{USER}:{USER}"
        return bare_debian.start_contained(self.root, self.state, VOLUME, user, self.environ, words)

    def said(self, *words: str) -> tuple[int, str]:
        process = self.run(*words)
        output, _ = process.communicate(timeout=WITHIN)
        return process.returncode, output.decode()


def build(stage: str, root: Path) -> dict[str, str]:
    """What an engine does with a stage's own instructions, in ``root``. The variables that it leaves."""
    # Debian keeps pip away from its own Python; the base image of the Dockerfile has one of its own.
    fetching = bare_debian.allow_downloads(root) | {"PIP_BREAK_SYSTEM_PACKAGES": "1"}
    environ, folder = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, "/"
    for word, text in instructions(stage):
        if word == "ENV":
            environ |= variables(text.replace("$PATH", environ["PATH"]))
        elif word == "WORKDIR":
            folder = text
            (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "COPY" and "--from" not in text:
            *sources, target = text.split()
            for source in sources:
                copy_into(CHECKOUT / source, root / folder.lstrip("/") / target)
        elif word == "RUN":
            command = re.sub(r"--mount=\S+ ", "", text)
            bare_debian.run_in(root, command, {**environ, **fetching}, folder)
    return environ


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """``service``, with what ``build`` made; the folders are some 800 MB."""
    folder = tmp_path_factory.mktemp("image")
    folder.chmod(0o755)
    for above in folder.parents[:2]:
        above.chmod(0o755)  # user 10001 has to come through
    try:
        built, root = bare_debian.copy_to(folder / "build"), bare_debian.copy_to(folder / "root")
    except Missing as missing:
        pytest.skip(str(missing))
    try:
        build("build", built)
        environ = build("service", root)
        (copy,) = [text for word, text in instructions("service") if "--from=build" in text]
        _, source, target = copy.split()
        shutil.copytree(built / source.lstrip("/"), root / target.lstrip("/"), symlinks=True)
        shutil.rmtree(built)
        (root / "etc/skybridge").mkdir()
        (root / "etc/skybridge/skybridge.yaml").write_text(CONFIG)
        state = folder / "state"
        state.mkdir()
        os.chown(state, USER, USER)
        yield Image(root, state, environ)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_program_runs_as_nobody_in_particular(image: Image) -> None:
    """From /opt/skybridge, which another stage made."""
    code, said = image.said("skybridge", "--version")
    assert (code, said.split()[-1]) == (0, "0.1.0")


@pytest.mark.parametrize("place", ["/opt/skybridge/x", "/etc/x", "/x"])
def test_nothing_but_the_volume_and_tmp_can_be_written(image: Image, place: str) -> None:
    """A read-only root file system, as the chart asks for."""
    assert image.said("touch", place)[0] != 0
    assert image.said("touch", f"{VOLUME}/x", "/tmp/x") == (0, "")


def test_it_serves_as_process_1_and_leaves_on_sigterm(image: Image) -> None:
    """By ENTRYPOINT and CMD. Healthy, an event is stored on the volume, 0 within the grace time."""
    last = dict(instructions("service"))
    words = [
        each for name in ("ENTRYPOINT", "CMD") for each in re.findall(r'"([^"]+)"', last[name])
    ]
    outside = image.run(*words)
    try:
        process = _child(outside)
        wait_until(
            lambda: outside.poll() is not None or _asked(process, 8081, "/healthz") == "200",
            "healthz",
            WITHIN,
        )
        assert outside.poll() is None, outside.stdout and outside.stdout.read().decode()
        wait_until(lambda: _asked(process, 8081, "/readyz") == "200", "readyz", WITHIN)
        assert _asked(process, 8080, "/events") == "202"
        status = Path(f"/proc/{process}/status").read_text()
        assert re.search(r"^Uid:\s+10001\s+10001", status, re.MULTILINE)
        assert re.search(r"^NSpid:\s+\d+\s+1$", status, re.MULTILINE), "it is process 1"
        began = time.monotonic()
        os.kill(process, signal.SIGTERM)
        said, _ = outside.communicate(timeout=GRACE)
        print(f"left after {time.monotonic() - began:.1f} s with {outside.returncode}")
        assert outside.returncode == 0, said.decode()
    finally:
        outside.kill()
        outside.wait()
        outside.stdout.close()
    assert (image.state / "log" / "log.db").stat().st_uid == USER


def _child(outside: subprocess.Popen[bytes]) -> int:
    """What ``unshare`` has forked, by this machine's number of it."""
    children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
    wait_until(lambda: bool(children.read_text().split()), "process 1", WITHIN)
    return int(children.read_text().split()[0])


def _asked(process: int, port: int, path: str) -> str:
    """In the network of the process, which has loopback alone. "": nobody answers."""
    url = f"http://127.0.0.1:{port}{path}"
    command = ["nsenter", f"--target={process}", "--net", sys.executable, "-c", ASK, url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()

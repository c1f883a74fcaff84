"""The release before, this one, and back again under load, on the same log and store (issue 9)."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from pages import CHECKOUT
from restarting_service import end_and_verify
from service_process import ServiceProcess
from verifier_process import Load

pytestmark = [pytest.mark.nightly, pytest.mark.fault]

LOAD = Load(keys=100, per_key=10, kills=2)
FULL = Load(keys=100, per_key=100, kills=6)
BEFORE = (
    os.environ.get("SKYBRIDGE_BEFORE") or "HEAD~1"
)  # until there is a release: the commit before
FROM = "import sys; sys.path.insert(0, {folder!r}); import app.cli; "


def taken_from_history(folder: Path, *parts: str) -> None:
    """These parts of ``BEFORE``, or all of it."""
    git = ["git", "-C", str(CHECKOUT), "archive", BEFORE, *parts]
    done = subprocess.run(git, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no history to take the release before from: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


@pytest.fixture
def before(tmp_path: Path) -> list[str]:
    """The program of ``BEFORE``, with the libraries of today."""
    folder = tmp_path / "before"
    taken_from_history(folder, "app")
    source = FROM.format(folder=str(folder))
    place = [sys.executable, "-c", f"{source}print(app.cli.__file__)"]
    assert subprocess.check_output(place, text=True).startswith(str(folder)), "it is today's"
    return [sys.executable, "-c", f"{source}app.cli.main()"]


@pytest.fixture
def installed_before(tmp_path: Path) -> list[str]:
    """The program of ``BEFORE`` as its own lock file installs it: its wheel and its libraries, and nothing of here."""
    folder, environment = tmp_path / "before", tmp_path / "environment"
    taken_from_history(folder)
    uv = str(Path(sys.executable).with_name("uv"))
    sync = [uv, "sync", "--frozen", "--quiet", "--no-dev", "--no-editable", f"--python={sys.executable}"]  # fmt: skip
    settings = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(environment)}
    settings.pop("VIRTUAL_ENV", None)
    subprocess.run(sync, cwd=folder, env=settings, check=True)
    place = [environment / "bin" / "python", "-c", "import app; print(app.__file__)"]
    found = subprocess.check_output(place, cwd=tmp_path, text=True)
    assert found.startswith(str(environment)), "it is today's"
    return [str(environment / "bin" / "skybridge")]


def upgraded_and_back(folder: Path, before: list[str], load: Load) -> None:
    today = [str(Path(sys.executable).with_name("skybridge"))]
    programs = itertools.cycle([before, today])

    def begin(service: ServiceProcess) -> None:
        service.program = next(programs)
        service.start()

    delivered, stored = end_and_verify(load, folder, ServiceProcess.stop, begin)
    assert delivered["acknowledged"] == stored["acknowledged"] == load.events
    assert (delivered["lost"], stored["lost"]) == (0, 0)
    assert (delivered["order_breaks"], stored["order_breaks"]) == (0, 0)
    assert (delivered["duplicated"], stored["duplicated"]) == (0, 0)


def test_an_upgrade_and_the_way_back_lose_nothing_under_load(
    tmp_path: Path, before: list[str]
) -> None:
    """Each reads what the other has left; no acknowledged event is lost, none is out of order."""
    upgraded_and_back(tmp_path, before, LOAD)


@pytest.mark.nightly
@pytest.mark.timeout(0)  # each wait ends when nothing moves
def test_upgrades_of_an_install_of_its_own_lose_nothing_under_load(
    tmp_path: Path, installed_before: list[str]
) -> None:
    """Three upgrades and three ways back. ``SKYBRIDGE_BEFORE`` names another commit to come from."""
    upgraded_and_back(tmp_path, installed_before, FULL)

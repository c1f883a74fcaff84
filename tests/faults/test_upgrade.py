"""The release before, this one, and back again under load, on the same log and store (issue 9)."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from disturbed import end_and_verify
from pages import CHECKOUT
from service_process import ServiceProcess
from verifying import Load

pytestmark = pytest.mark.fault

LOAD = Load(keys=100, per_key=10, kills=2, deadline=600)
BEFORE = "HEAD~1"  # until there is a release: the commit before
FROM = "import sys; sys.path.insert(0, {folder!r}); import app.cli; "


@pytest.fixture
def before(tmp_path: Path) -> list[str]:
    """The program of ``BEFORE``, with the libraries of today."""
    git = ["git", "-C", str(CHECKOUT), "archive", BEFORE, "app"]
    done = subprocess.run(git, capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no history to take the release before from: {done.stderr.decode().strip()}")
    folder = tmp_path / "before"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    source = FROM.format(folder=str(folder))
    place = [sys.executable, "-c", f"{source}print(app.cli.__file__)"]
    assert subprocess.check_output(place, text=True).startswith(str(folder)), "it is today's"
    return [sys.executable, "-c", f"{source}app.cli.main()"]


def test_an_upgrade_and_the_way_back_lose_nothing_under_load(
    tmp_path: Path, before: list[str]
) -> None:
    """Each reads what the other has left; no acknowledged event is lost, none is out of order."""
    today = [str(Path(sys.executable).with_name("skybridge"))]
    programs = itertools.cycle([before, today])

    def begin(service: ServiceProcess) -> None:
        service.program = next(programs)
        service.start()

    delivered, stored = end_and_verify(LOAD, tmp_path, ServiceProcess.stop, begin)
    assert delivered["acknowledged"] == stored["acknowledged"] == LOAD.events
    assert (delivered["lost"], stored["lost"]) == (0, 0)
    assert (delivered["order_breaks"], stored["order_breaks"]) == (0, 0)
    assert (delivered["duplicated"], stored["duplicated"]) == (0, 0)

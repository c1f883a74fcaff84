"""docs/guides/key-mappers.md: its function, its package and its route work together."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pages import CHECKOUT, blocks

PAGE = CHECKOUT / "docs" / "guides" / "key-mappers.md"
EXAMPLE = {block.language: block.text for block in blocks(PAGE) if block.reason}
ASK = """
import sys
from pathlib import Path
from app.config.derived.key_mappers import load_key_mappers
from app.config.load.loader import load
from app.event.value import CloudEvent
from app.routing.explained import explain

(route,) = load(Path(sys.argv[1]), {}).config.routes
event = CloudEvent({"specversion": "1.0", "id": "1", "source": "/", "type": "t", "subject": "eu/7"})
explained = explain(route.key, event, own=load_key_mappers([route]))
print(explained.key.decode(), explained.why)
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package of the page as an installer leaves it: a module and its entry points."""
    project = tomllib.loads(EXAMPLE["toml"])["project"]
    (tmp_path / "shop_keys.py").write_text(EXAMPLE["python"])
    info = tmp_path / "shop_keys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = "".join(
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
        for group, points in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(groups)
    (tmp_path / "skybridge.yaml").write_text(EXAMPLE["yaml"])
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    python_path = os.pathsep.join([str(folder), str(CHECKOUT)])
    environ = {**os.environ, "PATH": path, "PYTHONPATH": python_path}
    return subprocess.run(
        command, env=environ, cwd=folder, capture_output=True, text=True, check=False, timeout=90
    )


def test_the_example_is_found_and_makes_the_key(installed: Path):
    """What a reader copies must work, and needs no import from us."""
    assert "import" not in EXAMPLE["python"]
    answered = run(installed, sys.executable, "-c", ASK, "skybridge.yaml")
    assert answered.stdout == "eu:7 the key mapper 'region' returned it\n", answered.stderr


def test_check_accepts_the_example_only_where_it_is_installed(installed: Path):
    """And says so where it is not."""
    found = run(installed, "skybridge", "check", "skybridge.yaml")
    assert found.returncode == 0, found.stdout + found.stderr
    (installed / "shop_keys-1.0.dist-info" / "entry_points.txt").unlink()
    missing = run(installed, "skybridge", "check", "skybridge.yaml")
    assert missing.returncode != 0
    assert "The key mapper 'region' does not exist" in " ".join(
        (missing.stdout + missing.stderr).split()
    )

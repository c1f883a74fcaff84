"""One version everywhere: what is installed, what the code says, the chart, the changelog."""

from __future__ import annotations

import re
import tomllib

from app import __version__
from pages import CHECKOUT


def project_version() -> str:
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]


def test_the_code_and_the_project_agree():
    """`skybridge --version` prints the code's; packages carry the project's."""
    assert __version__ == project_version()


def test_the_lock_file_agrees():
    """Else `uv sync --frozen` would install another version than it builds."""
    lock = tomllib.loads((CHECKOUT / "uv.lock").read_text())
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    own = next(package for package in lock["package"] if package["name"] == project["name"])
    assert own["version"] == project["version"]
    assert own["source"] == {"editable": "."}


def test_the_chart_agrees():
    """appVersion chooses the image."""
    chart = (CHECKOUT / "helm" / "skybridge" / "Chart.yaml").read_text()
    assert re.findall(r'^appVersion: "(.+)"$', chart, re.MULTILINE) == [project_version()]


def test_the_newest_entry_of_the_changelog_agrees():
    """What is shipped next is described on top."""
    entries = re.findall(r"^## \[(.+?)\]", (CHECKOUT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert entries[0] == project_version()

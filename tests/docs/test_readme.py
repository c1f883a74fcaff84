"""What the README leads a reader through, step by step."""

from __future__ import annotations

import re
import tomllib

from pages import CHECKOUT

_PACKAGE = re.compile(
    r"(?:pip|pipx|uv tool|uv pip) install[^\n`]*\bskybridge\b|\b(?:uvx|uv add) skybridge\b|\bskybridge\[[a-z]"
)
README = (CHECKOUT / "README.md").read_text()


def test_the_first_service_is_stopped_before_the_second_is_started() -> None:
    """Both have the same folder: the second would be refused."""
    begin = README.index("`make serve` starts")
    stop = README.index("Stop `make serve` first")
    assert begin < stop < README.index("`skybridge serve --config skybridge.yaml`")


def test_nobody_is_sent_to_a_package_that_is_not_ours() -> None:
    """Nothing is published: on PyPI, `skybridge` is another project. Pages, messages and helps name none."""
    places = [CHECKOUT / "README.md", CHECKOUT / "Dockerfile", CHECKOUT / "Makefile"]
    for folder, ending in (("docs", "md"), ("docs", "yaml"), ("app", "py"), ("helm", "*")):
        places += [each for each in (CHECKOUT / folder).rglob(f"*.{ending}") if each.is_file()]
    found = [
        f"{place.relative_to(CHECKOUT)}: {match[0]}"
        for place in places
        for match in _PACKAGE.finditer(place.read_text())
    ]
    assert found == []


def test_the_distribution_has_a_name_of_its_own() -> None:
    """The command is `skybridge`; what would be uploaded is not named like somebody else's project."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "skybridge-cloudevents"
    assert list(project["scripts"]) == ["skybridge"]

"""Tests share one way to make a service, one to make the admin API, and one to wait."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pages import CHECKOUT

TESTS = CHECKOUT / "tests"
OWN = {
    "app.runtime.compose": {"support/service.py"},
    "app.runtime.service": {"support/service.py", "helm/test_configuration.py"},
    "app.api.front": {"support/admin_app.py", "unit/api/test_front.py"},
}
"""Modules by the files that may import them, besides the unit tests of ``app.runtime``."""


def sources() -> Iterator[tuple[str, str]]:
    for file in sorted(TESTS.rglob("*.py")):
        place = file.relative_to(TESTS)
        if "node_modules" not in place.parts and place.parts[:2] != ("unit", "runtime"):
            yield str(place), file.read_text()


@pytest.mark.parametrize("module", OWN)
def test_one_module_makes_a_service_and_one_the_admin_api(module: str) -> None:
    """When the way a service is made changes, one file of the tests changes."""
    package, _, name = module.rpartition(".")
    statement = re.compile(
        rf"^\s*(from {module} import|from {package} import .*\b{name}\b)", re.MULTILINE
    )
    assert {place for place, text in sources() if statement.search(text)} <= OWN[module]


def test_one_module_waits() -> None:
    """``waiting.until`` and ``waiting.wait_until``: a second spelling would have another bound and error."""
    another = re.compile(r"^(async )?def (until|wait_until|eventually)\(", re.MULTILINE)
    assert {place for place, text in sources() if another.search(text)} == {"support/waiting.py"}

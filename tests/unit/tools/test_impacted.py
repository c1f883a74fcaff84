"""Which tests a change concerns."""

from __future__ import annotations

from pathlib import Path

import pytest

import impacted
from pages import CHECKOUT


def named(*paths: str) -> set[str]:
    found: list[Path] = impacted.impacted(paths)
    return {str(path.relative_to(CHECKOUT)) for path in found}


def test_a_module_concerns_the_tests_that_import_it_and_those_that_run_a_service():
    """Also through other modules, and through lists of names of modules that are forked."""
    found = named("app/log/groups/coordinator.py")
    assert "tests/unit/brokers/embedded/test_consumer.py" in found
    assert "tests/faults/test_kill.py" in found
    assert "tests/unit/event/test_convert.py" not in found


def test_a_pure_module_below_concerns_what_builds_on_it():
    """An event is everywhere."""
    assert {"tests/unit/event/test_convert.py", "tests/faults/test_kill.py"} <= named(
        "app/event/__init__.py"
    )


def test_a_module_of_support_concerns_those_that_import_it():
    """Directly or through another."""
    found = named("tests/support/power_cut.py")
    assert "tests/faults/test_power_cut.py" in found
    assert "tests/unit/event/test_convert.py" not in found


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("docs/guarantees.md", "docs"),
        ("helm/skybridge/values.yaml", "helm"),
        ("Dockerfile", "helm"),
    ],
)
def test_what_is_no_python_concerns_its_folder(path: str, folder: str):
    """Pages are executed by tests/docs, the chart is rendered by tests/helm."""
    found = named(path)
    assert found
    assert all(each.startswith(f"tests/{folder}/") for each in found)


def test_a_test_concerns_itself():
    """And no other."""
    one = "tests/unit/event/test_convert.py"
    assert named(one) == {one}


def test_what_all_depends_on_concerns_all():
    """Nobody can say what a changed version of a library reaches, or another way to start Kafka."""
    every = len(list(impacted.TESTS.rglob("test_*.py")))
    assert len(named("uv.lock")) == len(named("tests/support/kafka_server.py")) == every

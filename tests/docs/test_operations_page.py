"""docs/operations.md and the reference name metrics and paths that a running service has."""

from __future__ import annotations

import re
import urllib.request

import pytest

from pages import CHECKOUT

PAGE = (CHECKOUT / "docs" / "operations.md").read_text()


def get(running, path: str) -> str:
    url = f"http://127.0.0.1:{running.ports['8081']}{path}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_the_metrics_of_the_page_are_those_of_a_service(running):
    """An alarm on a metric that does not exist never rings."""
    served = set(re.findall(r"^# HELP (skybridge_\w+)", get(running, "/metrics"), re.MULTILINE))
    page = (
        (CHECKOUT / "docs" / "reference" / "metrics.md").read_text().partition("## The archive")[0]
    )
    documented = set(re.findall(r"^\| `(skybridge_\w+)`", page, re.MULTILINE))
    assert documented == served


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`(/[\w./-]+)`", PAGE.split("## Metrics")[0])))
)
def test_the_paths_of_the_page_answer(running, path):
    """Each row of the table is a path of the admin listener."""
    assert get(running, path)

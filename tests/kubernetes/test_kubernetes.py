"""The service in a real Kubernetes: nothing accepted is lost, whatever happens to pods and nodes.

The short form runs where Kubernetes is built already (``make kubernetes`` builds it once, in ten
minutes and 7 GB). CI has no built Kubernetes, so it skips there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import go_build
import pytest
from image_build import Broken
from laboratory_run import options, run, site
from place import Site
from scenarios import ENTRIES, Entry

from kafka_install import Missing

SHORT = [each for each in ENTRIES if each.short]


def _running(nodes: int) -> Iterator[Site]:
    """Yield a cluster of this machine, or skip with the reason."""
    try:
        with site(options(["--nodes", str(nodes)])) as here:
            yield here
    except (Missing, Broken) as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def small() -> Iterator[Site]:
    if os.environ.get("CI") == "true":
        pytest.skip("CI has no built Kubernetes: make kubernetes builds it, in 10 minutes and 7 GB")
    if not go_build.complete():
        pytest.skip("Kubernetes is not built on this machine. Cure: make kubernetes")
    yield from _running(1)


@pytest.fixture(scope="module")
def whole() -> Iterator[Site]:
    yield from _running(2)


def _check(here: Site, entry: Entry) -> None:
    rows = run(here, entry, None)
    assert rows
    assert not [fault for row in rows for fault in row.faults()]


@pytest.mark.parametrize("entry", SHORT, ids=[each.name for each in SHORT])
def test_short(small: Site, entry: Entry) -> None:
    """One pod: installed, killed under load, uninstalled."""
    _check(small, entry)


@pytest.mark.nightly
@pytest.mark.parametrize("entry", ENTRIES, ids=[each.name for each in ENTRIES])
def test_scenario(whole: Site, entry: Entry) -> None:
    """Lost 0; refused 0 where another pod takes the events."""
    _check(whole, entry)

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


_SMALL, _WHOLE = 1, 2  # nodes of the short form, and of all scenarios


@pytest.fixture(scope="module")
def here(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Yield a cluster of this machine with so many nodes, or skip with the reason.

    One fixture makes both sizes, so that pytest ends a cluster before it starts the next one.
    """
    if request.param == _SMALL:
        _skip_short_form()
    try:
        with site(options(["--nodes", str(request.param)])) as running:
            yield running
    except (Missing, Broken) as why:
        pytest.skip(str(why))


def _skip_short_form() -> None:
    if os.environ.get("CI") == "true":
        pytest.skip("CI has no built Kubernetes: make kubernetes builds it, in 10 minutes and 7 GB")
    if not go_build.complete():
        pytest.skip("Kubernetes is not built on this machine. Cure: make kubernetes")


def _check(here: Site, entry: Entry) -> None:
    rows = run(here, entry, None)
    assert rows
    assert not [fault for row in rows for fault in row.faults()]


@pytest.mark.parametrize("here", [_SMALL], indirect=True, ids=["one node"])
@pytest.mark.parametrize("entry", SHORT, ids=[each.name for each in SHORT])
def test_short(here: Site, entry: Entry) -> None:
    """One pod: installed, killed under load, uninstalled."""
    _check(here, entry)


@pytest.mark.nightly
@pytest.mark.parametrize("here", [_WHOLE], indirect=True, ids=["two nodes"])
@pytest.mark.parametrize("entry", ENTRIES, ids=[each.name for each in ENTRIES])
def test_scenario(here: Site, entry: Entry) -> None:
    """Lost 0; refused 0 where another pod takes the events."""
    _check(here, entry)

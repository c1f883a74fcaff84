"""The list of scenarios, and what each needs.

A scenario is a function with the decorator ``scenario``. It takes a ``Site``, yields rows, and
raises an error if what it caused did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import settings
from place import Site, Space
from release import NAME, Release, Values
from traffic import Load, Row, load

Scenario = Callable[[Site], Iterator[Row]]
SINGLE, SPLIT, SPOOL = "single", "split", "split, spool"
RATES = {SINGLE: 60.0, SPLIT: 80.0, SPOOL: 60.0}
"""Events per second."""


class Entry(NamedTuple):
    """A scenario with its name on the command line.

    Attributes:
        short: Whether it belongs to the short form, which `make test` runs.
        own: Whether it needs the laboratory of this machine.
    """

    name: str
    run: Scenario
    short: bool
    own: bool


ENTRIES: list[Entry] = []


def scenario(*, short: bool = False, own: bool = False) -> Callable[[Scenario], Scenario]:
    """Add a function to the list of scenarios, under its name with hyphens."""

    def add(run: Scenario) -> Scenario:
        ENTRIES.append(Entry(run.__name__.replace("_", "-"), run, short, own))
        return run

    return add


class Installed(NamedTuple):
    """A release under load, in a namespace of its own."""

    space: Space
    release: Release
    load: Load


Change = Callable[[Space, Values], Values]


def unchanged(_: Space, values: Values) -> Values:
    return values


@contextmanager
def released(
    site: Site, topology: str, change: Change = unchanged, name: str = NAME
) -> Iterator[tuple[Space, Release]]:
    """Install the chart in a namespace during the block.

    Args:
        site: The cluster.
        topology: The name of the values.
        change: Makes the values of the scenario from those of the topology.
        name: The name of the release.
    """
    make = {SINGLE: settings.single, SPLIT: settings.split, SPOOL: settings.spool}[topology]
    with site.space(volumes=0 if topology == SPLIT else 3) as space:
        if topology != SINGLE:
            space.add_servers()
        values = change(space, make(space.name, site.image, site.pull))
        release = Release(space, values, name)
        try:
            release.install()
            yield space, release
        except BaseException:
            print(space.describe())
            raise
        release.uninstall()


@contextmanager
def installed(
    site: Site, topology: str, change: Change = unchanged, name: str = NAME
) -> Iterator[Installed]:
    """Install the chart and put it under load during the block. The load ends with the block."""
    with (
        released(site, topology, change, name) as (space, release),
        load(space, release.url, RATES[topology]) as running,
    ):
        yield Installed(space, release, running)

"""Every SDK's verdicts, asked for once a run. What is missing skips here and fails with CI=true."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cesql_opinion import Comparison
from cesql_page import on_the_table
from kafka_install import Missing
from opinion_install import CESQL, SDKS, Sdk, installed
from opinion_list import listed
from opinion_process import asked
from opinion_verdicts import Opinion
from skipping import skip_or_fail

Verdicts = Callable[[str], list[Opinion]]


@pytest.fixture(scope="session")
def verdicts() -> Verdicts:
    """The verdicts of an SDK by its name; its process is gone when they are there."""
    found: dict[str, list[Opinion]] = {}
    known = listed()

    def of(name: str) -> list[Opinion]:
        if name not in found:
            _require(name)
            found[name] = asked(SDKS[name], known.invented_by(name))
        return found[name]

    return of


@pytest.fixture(scope="session")
def cesql_driver() -> None:
    """Built, for those who ask it."""
    _require_sdk(CESQL)


@pytest.fixture(scope="session")
def sql_on_the_table(cesql_driver: None) -> list[Comparison]:
    """What the Java SDK makes of every expression of the table."""
    return on_the_table()


def _require(name: str) -> None:
    _require_sdk(SDKS[name])


def _require_sdk(sdk: Sdk) -> None:
    try:
        installed(sdk)
    except Missing as missing:
        skip_or_fail(missing)

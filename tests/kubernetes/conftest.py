"""Let tests of this folder import its modules, and the tables of ``tests/bench``; run an API server for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
sys.path += [str(_HERE), str(_HERE.parent / "bench")]

from api_server import ApiServer, api_server  # noqa: E402 - the path above leads to it

from kafka_install import Missing  # noqa: E402


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    """Run a real kube-apiserver with the definition of no kind of its own, or skip with the reason."""
    try:
        with api_server() as running:
            yield running
    except Missing as why:
        pytest.skip(str(why))

"""A minute of each target, which begins with what earlier runs have found."""

from __future__ import annotations

import pytest

from fuzz.target import MODULES

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("name", MODULES)
def test_no_input_of_a_minute_fails(name: str) -> None:
    """A failing input is in ``tests/corpus/fuzz`` afterwards."""
    pytest.importorskip("atheris", reason="there is no wheel for this platform")
    from fuzz.run import run

    assert run(name, 60)

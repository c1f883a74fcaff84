"""Times that Python cannot hold are shown as DuckDB shows them."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.far_times import far_text, time_or_text

_YEAR_1 = -62_135_596_800_000_000
_YEAR_10000 = 253_402_300_800_000_000


def by_duckdb(microseconds: int) -> str:
    [text] = duckdb.execute("SELECT make_timestamp(?)::VARCHAR", [microseconds]).fetchone() or [""]
    return str(text)


@given(st.integers(-(2**62), 2**62))
def test_a_time_of_any_year(microseconds: int) -> None:
    assert far_text(microseconds) == by_duckdb(microseconds)


@pytest.mark.parametrize("at", [_YEAR_1, _YEAR_1 - 1, _YEAR_10000, _YEAR_10000 - 1])
def test_the_first_and_last_years(at: int) -> None:
    assert far_text(at) == by_duckdb(at)
    assert isinstance(time_or_text(at), str) is not (_YEAR_1 <= at < _YEAR_10000)

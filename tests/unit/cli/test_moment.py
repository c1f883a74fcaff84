"""Times on the command line of the pipeline's verbs: one rule for all of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.cli.pipeline.group import moment
from app.errors import SetupError

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2026-11-20T12:00:00Z", "2026-11-20T13:30:00+01:30", "2026-11-20T12:00", "20261120T12"]
)
def test_a_time_is_in_utc_which_is_meant_where_no_zone_is_said(text: str) -> None:
    found = moment("--since", text)
    assert found is not None
    assert (found, found.utcoffset()) == (NOON, UTC.utcoffset(None))


def test_none_is_none() -> None:
    assert moment("--since", "") is None


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "0001-01-01T00:00:00+01:00"])
def test_what_is_no_time_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(SetupError, match="is not a time") as refused:
        moment("--until", text)
    assert refused.value.setting == "--until"
    assert "2026-01-01T00:00:00Z" in refused.value.cure

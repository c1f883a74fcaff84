"""The results of a submit, also where its future breaks its word."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import PublishUnknown
from app.interfaces import PublishResult, results_of

Stored = asyncio.Future[list[PublishResult]]


@pytest.mark.parametrize("how", ["cancelled", "raised"])
async def test_a_submit_without_an_answer_has_an_unknown_fate(how: str) -> None:
    """Rule 9: its records may be stored, so nobody is told that they are not."""
    stored: Stored = asyncio.get_running_loop().create_future()
    if how == "cancelled":
        stored.cancel()
    else:
        stored.set_exception(OSError("out of its mind"))
    fates = results_of(stored, 2)
    assert [type(each) for each in fates] == [PublishUnknown] * 2

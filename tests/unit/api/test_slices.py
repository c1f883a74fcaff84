"""Rows of an answer as JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from app.api.http.slices import Slices


@pytest.mark.parametrize("items", [[], [{"id": "a"}], [{"id": "a"}, [1, None], "ü"]])
async def test_an_array_has_the_items_as_json(items: list[Any]) -> None:
    answer = msgspec.json.encode({"rows": await Slices().array(items), "more": 1})
    assert json.loads(answer) == {"rows": items, "more": 1}

"""JSON bodies of the admin listener."""

from __future__ import annotations

import pytest

from app.api.http.bodies import json_object
from app.api.http.problems import RequestRefused


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (rb'{"id":"cut \ud83d"}', "the body has a text with an unpaired surrogate"),
        (rb'{"id":"cut \ud83d",}', "the body is not JSON: JSON is malformed: trailing comma"),
        (b'{"n":1e400}', "the body has a value that cannot be read: Number out of range"),
        (b'{"id":"x"', "the body is not JSON: Input data was truncated"),
        (rb'{"id":"\u1"}', "the body is not JSON: JSON is malformed: invalid character in unicode"),
    ],
)
def test_why_a_body_cannot_be_read_is_said_truly(body: bytes, why: str) -> None:
    with pytest.raises(RequestRefused) as refusal:
        json_object(body)
    assert why in str(refusal.value)

"""Whatever a request holds, an intake makes a valid event of it, with its very values, or says what is wrong."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.event.validate import faults_of
from app.intakes import github, gitlab
from app.intakes.arrival import IntakeRequest
from app.intakes.mapping import Unmappable, compile_mapping
from app.intakes.presets import PRESETS

TEXTS = st.text(max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
NAMES = st.sampled_from([
    "action", "id", "url", "type", "object", "repository", "issue", "number", "updated_at", "comment",
    "object_kind", "event", "team_id", "object_attributes", "noteable_type", "project", "organization",
    "created", "data",
])  # fmt: skip
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=6),
    max_leaves=20,
)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from([
            b"x-id", b"content-type", github.EVENT.encode(), github.DELIVERY.encode(), b"webhook-id",
            b"x-shopify-topic", *(name.encode() for name in gitlab.IDENTITIES),
        ]),
        st.binary(max_size=12) | st.sampled_from([b"push", b"issues", b"application/json", b"1"]),
    ),
    max_size=8,
)  # fmt: skip


def pointer(*steps: str) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def plain(text: str) -> bool:
    return not set("{}") & set(text)


@given(
    st.dictionaries(
        TEXTS.filter(plain), TEXTS | st.integers() | st.booleans(), min_size=1, max_size=5
    ),
    st.data(),
)
def test_a_template_gives_the_very_text_of_what_it_names(body: dict[str, Any], data: Any) -> None:
    """Of any name, with any escapes; or the event would be none, and every fault says so."""
    name = data.draw(st.sampled_from(sorted(body)))
    templates = {"id": (f"{{pointer:{pointer(name)}}}",), "type": ("t",), "source": ("/s",)}
    arrival = IntakeRequest([], json.dumps(body).encode())
    value = body[name]
    text = value if isinstance(value, str) else json.dumps(value)
    mapper = compile_mapping(templates)
    if faults_of({"specversion": "1.0", "id": text, "type": "t", "source": "/s"}, str):
        with pytest.raises(Unmappable) as error:
            mapper(arrival, 0)
        assert {fault.at for fault in error.value.faults} == {"id"}
    else:
        assert mapper(arrival, 0)["id"] == text


@given(st.sampled_from(sorted(PRESETS)), HEADERS, JSON | st.binary(max_size=40), st.booleans())
def test_a_preset_makes_a_valid_event_or_says_what_is_wrong(
    preset: str, headers: list[tuple[bytes, bytes]], body: Any, as_form: bool
) -> None:
    """Never another error, and never an event that is none."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    if as_form:
        raw, headers = (
            b"payload=" + raw,
            [*headers, (b"content-type", b"application/x-www-form-urlencoded")],
        )
    arrival = IntakeRequest(headers, raw, field=PRESETS[preset].field)
    with contextlib.suppress(Unmappable):
        made = PRESETS[preset].mapper("in")(arrival, 1_800_000_000.0)
        assert not faults_of(made, str)
        assert set(made) <= {
            "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "partitionkey",
        }  # fmt: skip

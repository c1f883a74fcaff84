"""The reasons given for keys: right where a key is found, and where none is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.errors import KeyMapperFailed
from app.event.value import CloudEvent
from app.model.route import BUILT_IN_MAPPERS, KeyPolicy
from app.routing.explained import _REASONS, ExplainedKey, explain
from app.routing.keys import compile_key

MakeEvent = Callable[..., CloudEvent]
OWN = {"shop": lambda attributes, _data, _key: attributes.get("subject")}
CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"mapper": "from_request"}, "the request has it", "the request has none"),
    (
        {"mapper": "partitionkey"},
        "it is the attribute partitionkey",
        "the event has no attribute partitionkey, or an empty one",
    ),
    (
        {"mapper": "attribute", "attribute": "subject"},
        "it is the attribute subject",
        "the event has no attribute subject",
    ),
    (
        {"mapper": "template", "template": "{source}/{subject}/{ext}/{ext}"},
        "it is computed from {source}/{subject}/{ext}/{ext}",
        "{source}/{subject}/{ext}/{ext} needs subject, ext",
    ),
    (
        {"mapper": "pointer", "pointer": "/order/id"},
        "it is the value at '/order/id' in data",
        "data has no text, number or boolean at '/order/id'",
    ),
    (
        {"mapper": "hash", "attributes": ["subject", "gone"]},
        "it is the digest of subject, gone; absent: gone",
        "the event has none of subject, gone",
    ),
    ({"mapper": "none"}, "the route wants none", "the route wants none"),
    (
        {"mapper": "shop"},
        "the key mapper 'shop' returned it",
        "the key mapper 'shop' returned none",
    ),
]


@pytest.mark.parametrize(("settings", "why", "why_not"), CASES)
def test_a_key_is_explained(
    event: MakeEvent, settings: dict[str, Any], why: str, why_not: str
) -> None:
    """The key is the very one that the route would use, and the reason fits it."""
    policy = KeyPolicy.model_validate(settings)
    full, bare = event(subject="s", ext="e", partitionkey="p"), event(data=None)
    key = compile_key(policy, own=OWN)(full, b"k")
    assert explain(policy, full, b"k", own=OWN) == ExplainedKey(policy.mapper, key, why)
    assert explain(policy, bare, None, own=OWN) == ExplainedKey(policy.mapper, None, why_not)


def test_a_fallback_to_the_request_is_explained(event: MakeEvent) -> None:
    policy = KeyPolicy(mapper="partitionkey", missing="from_request")
    absent = "the event has no attribute partitionkey, or an empty one"
    assert [
        (found.key, found.why)
        for found in (
            explain(policy, event(partitionkey="p"), b"k"),
            explain(policy, event(), b"k"),
            explain(policy, event(), None),
        )
    ] == [
        (b"p", "it is the attribute partitionkey"),
        (b"k", f"{absent}; the request has it"),
        (None, f"{absent}; the request has none"),
    ]


def test_a_refusal_is_explained_too(event: MakeEvent) -> None:
    """The question is most pressing where the sender got 400."""
    strict = KeyPolicy(mapper="partitionkey", missing="reject")
    explained = explain(strict, event(), b"k")
    assert (explained.key, explained.refused) == (None, True)
    assert explained.why == "the event has no attribute partitionkey, or an empty one"


def test_a_failing_mapper_is_not_explained_away(event: MakeEvent) -> None:
    """There is no key to explain."""
    with pytest.raises(KeyMapperFailed):
        explain(KeyPolicy(mapper="shop"), event(), own={"shop": lambda: None})  # type: ignore[dict-item,misc]


def test_every_mapper_has_its_reason() -> None:
    """One that is added and forgotten here would be taken for an operator's own."""
    assert set(_REASONS) == set(BUILT_IN_MAPPERS)

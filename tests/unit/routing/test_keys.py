"""Where record keys come from, and that making one leaves the event alone."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.errors import KeyMapperFailed, SetupError
from app.event.value import CloudEvent
from app.model.route import BUILT_IN_MAPPERS, KeyPolicy
from app.routing.keys import MAPPERS, MissingKey, compile_key, digest

MakeEvent = Callable[..., CloudEvent]
POLICIES: dict[str, dict[str, Any]] = {
    "from_request": {},
    "partitionkey": {},
    "attribute": {"attribute": "subject"},
    "template": {"template": "{source}/{subject}"},
    "pointer": {"pointer": "/order/id"},
    "hash": {"attributes": ["partitionkey", "subject"]},
    "none": {},
}


def policy(mapper: str, **more: str) -> KeyPolicy:
    return KeyPolicy.model_validate({"mapper": mapper, **POLICIES[mapper], **more})


@pytest.mark.parametrize(
    ("mapper", "expected"),
    [
        ("from_request", b"from the sender"),  # K7
        ("partitionkey", "prüfung".encode()),  # K9: as is
        ("attribute", b"sub"),
        ("template", b"/s/sub"),
        ("pointer", b"o-1"),
        ("hash", sha256(b"8:pr\xc3\xbcfung,3:sub,").hexdigest()[:32].encode()),
        ("none", None),
    ],
)
def test_each_mapper_finds_its_key(event: MakeEvent, mapper: str, expected: bytes | None) -> None:
    """The request's own key counts for from_request alone: mappers are opt-in (K9)."""
    sent = event(subject="sub", partitionkey="prüfung")
    assert compile_key(policy(mapper))(sent, b"from the sender") == expected


@pytest.mark.parametrize("mapper", list(POLICIES))
def test_a_mapper_never_touches_the_event(event: MakeEvent, mapper: str) -> None:
    """K10: partitionkey is still sent, and no key becomes an attribute. The mapping of this event
    refuses writes, and its whole value is compared as well."""
    sent = event(subject="sub", partitionkey="p")
    before = msgspec.structs.asdict(sent)
    attributes = dict(sent.attributes)
    compile_key(policy(mapper))(sent, b"k")
    assert msgspec.structs.asdict(sent) == before
    assert dict(sent.attributes) == attributes


@pytest.mark.parametrize("mapper", [name for name in POLICIES if name != "none"])
def test_a_missing_key_is_none_or_refused(event: MakeEvent, mapper: str) -> None:
    """The route says which; a refusal names what the sender must give."""
    bare = event(data=None)
    assert compile_key(policy(mapper))(bare, None) is None
    with pytest.raises(MissingKey) as refused:
        compile_key(policy(mapper, missing="reject"))(bare, None)
    error = refused.value
    assert (error.status, error.code) == (400, "missing-key")
    assert error.faults[0].code == "missing-key"
    assert error.faults[0].at


@pytest.mark.parametrize(
    ("mapper", "at"),
    [
        ("from_request", "header skybridge-key"),
        ("partitionkey", "partitionkey"),
        ("attribute", "subject"),
        ("template", "template {source}/{subject}"),
        ("pointer", "pointer /order/id"),
        ("hash", "partitionkey, subject"),
    ],
)
def test_a_refusal_says_where_the_key_would_come_from(
    event: MakeEvent, mapper: str, at: str
) -> None:
    """Without it the sender can only guess what this route wants."""
    with pytest.raises(MissingKey) as refused:
        compile_key(policy(mapper, missing="reject"))(event(data=None), None)
    assert refused.value.faults[0].at == at


def test_an_empty_key_of_the_sender_is_a_key(event: MakeEvent) -> None:
    """K7: as is. Empty and none are two things in Kafka."""
    assert compile_key(policy("from_request", missing="reject"))(event(), b"") == b""


def test_an_empty_partitionkey_is_no_key(event: MakeEvent) -> None:
    """K9: the extension's value must not be empty. The event is valid all the same, and goes on."""
    sent = event(partitionkey="")
    assert compile_key(policy("partitionkey"))(sent, None) is None
    with pytest.raises(MissingKey):
        compile_key(policy("partitionkey", missing="reject"))(sent, None)


def test_a_present_key_passes_reject(event: MakeEvent) -> None:
    """reject must refuse only what is missing."""
    sent = event(subject="sub", partitionkey="p")
    for mapper in POLICIES:
        if mapper != "none":
            assert compile_key(policy(mapper, missing="reject"))(sent, b"k") is not None


@pytest.mark.parametrize(
    "mapper", [name for name in POLICIES if name not in {"none", "from_request"}]
)
def test_the_senders_own_key_is_taken_where_the_route_says_so(
    event: MakeEvent, mapper: str
) -> None:
    """K7: as is, and only for an event from which the mapper takes none."""
    own = compile_key(policy(mapper))
    either = compile_key(policy(mapper, missing="from_request"))
    full, bare = event(subject="sub", partitionkey="p"), event(data=None)
    assert either(full, b"k") == own(full, b"k") is not None
    assert [either(bare, key) for key in (b"k", b"", None)] == [b"k", b"", None]


@pytest.mark.parametrize("mapper", ["none", "from_request"])
def test_a_fallback_to_the_request_that_has_no_effect_is_refused(mapper: str) -> None:
    with pytest.raises(ValidationError, match="set mapper: from_request alone"):
        policy(mapper, missing="from_request")


def test_half_a_template_is_no_key(event: MakeEvent) -> None:
    """A key of "/s/" would put into one lane what is not one thing."""
    assert compile_key(policy("template"))(event(), None) is None


def test_a_hash_needs_one_of_its_attributes(event: MakeEvent) -> None:
    """An absent part is told apart from an empty one rather than losing the key."""
    mapper = compile_key(policy("hash"))
    assert mapper(event(subject="s"), None) == digest([None, "s"])
    assert mapper(event(), None) is None


@given(st.lists(st.none() | st.text(), max_size=4), st.lists(st.none() | st.text(), max_size=4))
def test_different_values_have_different_digests(
    one: list[str | None], other: list[str | None]
) -> None:
    """("a:b", "c") and ("a", "b:c") are two keys, whatever separators the values contain."""
    assert (digest(one) == digest(other)) is (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a,1:b"], ["a", "b"]),
        (["1:a,"], ["a"]),
        (["", "a"], ["a", ""]),
        ([None], [""]),
        (["-,"], [None]),
        (["ab", "c"], ["a", "bc"]),
    ],
)
def test_separators_in_values_make_no_clash(one: list[str | None], other: list[str | None]) -> None:
    """The clashes that joining with a separator would make."""
    assert digest(one) != digest(other)


def test_the_digest_is_stable() -> None:
    """A changed digest would move every key to another partition at an upgrade. The value comes from
    a sha256sum over the documented text."""
    assert digest(["shop", None, "grün"]) == b"81b930bbc8be334965adfe0bdb85a716"


def test_a_wrong_template_names_its_setting() -> None:
    """Start-up must say which of many routes is meant."""
    wrong = KeyPolicy(mapper="template", template="{Source}")
    with pytest.raises(
        SetupError, match=r"routes\[3\]\.key\.template: unknown placeholder \{Source\}"
    ):
        compile_key(wrong, setting="routes[3].key")


def test_every_mapper_of_the_model_can_be_compiled() -> None:
    """A choice that is added to the model and forgotten in the table would fail at run time."""
    assert set(MAPPERS) == set(BUILT_IN_MAPPERS)


# --- an operator's own


def own_key(event: CloudEvent, mapper: Any) -> bytes | None:
    return compile_key(KeyPolicy(mapper="shop"), own={"shop": mapper})(event, b"k")


@pytest.mark.parametrize(
    ("returned", "key"), [("grün", "grün".encode()), (b"\xff", b"\xff"), ("", b""), (None, None)]
)
def test_a_mapper_of_ones_own_makes_the_key(
    event: MakeEvent, returned: bytes | str | None, key: bytes | None
) -> None:
    """It sees attributes, data and the request's key, and needs nothing of ours."""
    seen: list[object] = []

    def shop(*given: object) -> bytes | str | None:
        seen.extend(given)
        return returned

    sent = event(subject="s")
    assert own_key(sent, shop) == key
    assert seen == [sent.attributes, sent.data, b"k"]


def raises(*_: object) -> bytes:
    raise ZeroDivisionError("secret of the data")


def writes(attributes: Any, *_: object) -> bytes:
    attributes["subject"] = "x"
    return b""


@pytest.mark.parametrize(
    ("mapper", "how"),
    [
        (raises, "raised ZeroDivisionError"),
        (writes, "raised TypeError"),
        (lambda: b"", "raised TypeError"),
        (lambda *_: "\ud800", "raised UnicodeEncodeError"),
        (lambda *_: 5, "returned a value of type int"),
        (lambda *_: bytearray(), "returned a value of type bytearray"),
    ],
)
def test_a_mapper_that_fails_is_the_operators_fault(
    event: MakeEvent, mapper: Any, how: str
) -> None:
    """Neither a 400, as if the sender were wrong, nor an event without its key. K10: it cannot write."""
    with pytest.raises(KeyMapperFailed) as failed:
        own_key(event(), mapper)
    assert str(failed.value) == f"The key mapper 'shop' of this gateway {how}"


def test_a_mapper_of_ones_own_may_find_nothing(event: MakeEvent) -> None:
    """None is an answer: the route says what then."""
    strict = KeyPolicy(mapper="shop", missing="reject")
    with pytest.raises(MissingKey) as refused:
        compile_key(strict, own={"shop": lambda *_: None})(event(), None)
    assert refused.value.faults[0].at == "mapper shop"


def test_an_unknown_mapper_names_its_setting() -> None:
    """A route must not come up with another key than it asks for."""
    with pytest.raises(
        SetupError, match=r"routes\[3\]\.key\.mapper: there is no key mapper 'shop'"
    ):
        compile_key(KeyPolicy(mapper="shop"), setting="routes[3].key")

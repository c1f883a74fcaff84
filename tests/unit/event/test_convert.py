"""From each version to any other (spec.md 3.3, 3.4)."""

from __future__ import annotations

import pytest

from app.event.convert import as_newest, as_version
from app.event.upgrade import own_attributes
from app.event.value import AttributeType, CloudEvent
from app.event.versions import VERSIONS

EVENT = CloudEvent(
    {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "u",
        "time": "2026-11-20T10:00:00Z", "datacontenttype": "text/plain", "dataschema": "urn:a",
        "n": "5", "b": "true",
    },
    b"x",
    types={"n": AttributeType.INTEGER, "b": AttributeType.BOOLEAN},
)  # fmt: skip
CORE = {"id": "1", "source": "/s", "type": "t", "subject": "u", "time": "2026-11-20T10:00:00Z"}


def own(event: CloudEvent) -> dict[str, str]:
    return {attribute.name: attribute.text for attribute in own_attributes(event)}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.0-rc1", CORE | {"specversion": "1.0-rc1", "dataschema": "urn:a",
                            "datacontenttype": "text/plain", "n": "5", "b": "true"}),
        ("0.3", CORE | {"specversion": "0.3", "schemaurl": "urn:a",
                        "datacontenttype": "text/plain", "n": "5", "b": "true"}),
        ("0.2", CORE | {"specversion": "0.2", "schemaurl": "urn:a", "contenttype": "text/plain",
                        "n": "5", "b": "true"}),
        ("0.1", {"cloudEventsVersion": "0.1", "eventID": "1", "source": "/s", "eventType": "t",
                 "eventTime": "2026-11-20T10:00:00Z", "contentType": "text/plain",
                 "schemaURL": "urn:a", "extensions/subject": "u", "extensions/n": "5",
                 "extensions/b": "true"}),
    ],
)  # fmt: skip
def test_an_event_goes_down_under_the_names_of_the_version(
    version: str, expected: dict[str, str]
) -> None:
    """3.4: renamed, what the version knows not becomes an extension; filters see the same as before."""
    older = as_version(EVENT, version)

    assert own(older) == expected
    assert older.version == version
    assert older.attributes == EVENT.attributes
    assert older.data is EVENT.data


def test_before_1_0_a_boolean_is_text_and_an_integer_stays_one() -> None:
    """3.2: 1.0 brought the Boolean."""
    assert as_version(EVENT, "0.3").types == {"n": AttributeType.INTEGER}
    assert as_version(EVENT, "1.0-rc1").types == EVENT.types


@pytest.mark.parametrize("version", VERSIONS)
def test_up_again_nothing_but_the_boolean_is_lost(version: str) -> None:
    """3.3 and 3.4 are each other's reverse, as far as versions can hold the same."""
    again = as_newest(as_version(EVENT, version))

    assert again.attributes == EVENT.attributes
    assert again.version == "1.0"
    assert again.arrived == {}


def test_names_that_a_version_cannot_have_are_changed() -> None:
    """3.4, the loss list: a digit in front, and what was a core attribute then."""
    names = {"1a": "x", "x1a": "y", "contenttype": "z", "schemaurl": "urn:b"}
    event = CloudEvent(EVENT.attributes | names)

    assert own(as_version(event, "0.2")).items() >= {
        "x1ax": "x", "x1a": "y", "contenttypex": "z", "schemaurl": "urn:a", "schemaurlx": "urn:b",
    }.items()  # fmt: skip
    assert own(as_version(event, "0.1")).items() >= {"extensions/1a": "x"}.items()


def test_a_relative_schema_comes_back_to_where_it_was() -> None:
    """3.3 B: 1.0 wants an absolute URI, so it is an extension there, and a core attribute here."""
    base = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "schemaurl": "/rel"}

    assert own(as_version(CloudEvent(base), "0.1"))["schemaURL"] == "/rel"
    assert own(as_version(CloudEvent(base), "0.3"))["schemaurl"] == "/rel"


@pytest.mark.parametrize(
    ("name", "version"), [("schemaurl", "0.3"), ("schemaurl", "0.2"), ("eventtypeversion", "0.1")]
)
def test_a_typed_extension_becomes_no_core_attribute(name: str, version: str) -> None:
    """Core attributes are text in every version: as one it would lose its type."""
    base = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    event = CloudEvent(base | {name: "5"}, types={name: AttributeType.INTEGER})
    older = as_version(event, version)

    assert list(older.types.values()) == [AttributeType.INTEGER]
    assert not own(older).keys() & {"schemaurl", "eventTypeVersion"}


def test_the_version_it_is_of_already_is_left_alone() -> None:
    """The usual case costs nothing."""
    assert as_version(EVENT, "1.0") is EVENT

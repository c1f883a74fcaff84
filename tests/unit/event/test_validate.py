from __future__ import annotations

from app.event.validate import CLIPPED, faults_of, shorten

GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def codes(**changes: str) -> list[tuple[str, str]]:
    return [(fault.code, fault.at) for fault in faults_of(GOOD | changes, lambda name: f"/{name}")]


def test_the_smallest_event_is_valid() -> None:
    """Core 1.1: four attributes are enough."""
    assert codes() == []


def test_every_optional_attribute_and_extension_is_valid() -> None:
    """Extensions may be empty, long of name, and begin with a digit (core 1.2, 1.3)."""
    assert codes(
        datacontenttype="TEXT/Plain; CharSet=utf-8",
        dataschema="urn:schema:1",
        subject="Ünï 😀",
        time="2026-12-31T23:59:60.000000001-00:00",
        ext="",
        **{"1st": "x", "a" * 40: "y"},
    ) == []  # fmt: skip


def test_all_faults_are_listed_at_once() -> None:
    """A sender corrects an event in one go."""
    attributes = {
        "specversion": "1.0",
        "id": "",
        "source": "a b",
        "time": "noon",
        "My": "\0",
        "subject": "\n",
    }

    found = faults_of(attributes, lambda name: f"/{name}")

    assert [(fault.code, fault.at) for fault in found] == [
        ("empty-attribute", "/id"),
        ("bad-uri-reference", "/source"),
        ("missing-attribute", "/type"),
        ("bad-timestamp", "/time"),
        ("bad-attribute-name", "/My"),
        ("forbidden-character", "/My"),
        ("forbidden-character", "/subject"),
    ]


def test_an_unknown_version_names_those_that_are_known() -> None:
    """The sender learns what to send instead (design: versions)."""
    (fault,) = faults_of(GOOD | {"specversion": "7.0"}, str)

    assert fault.code == "unsupported-specversion"
    assert "'7.0'" in fault.detail
    assert "1.0." in fault.detail


def test_only_what_is_optional_may_be_left_out() -> None:
    """Core 1.1: id, source, type and specversion are required; the advice must not break the event."""
    found = faults_of(GOOD | {"id": "", "subject": ""}, lambda name: name)
    assert [fault.detail for fault in found] == [
        "id is empty: give it a value.",
        "subject is empty: leave it out, or give it a value.",
    ]


def test_an_empty_version_is_empty_rather_than_unknown() -> None:
    """Core 1.1: specversion is a non-empty string."""
    assert codes(specversion="") == [("empty-attribute", "/specversion")]


def test_a_fault_shows_only_the_beginning_of_a_value() -> None:
    """An answer must not grow with what was sent."""
    for attributes in ({"time": "x" * 10_000}, {"X" * 10_000: "y"}, {"x" * 10_000: "\0"}):
        (fault,) = faults_of(GOOD | attributes, str)
        assert "x" * CLIPPED in fault.detail.lower()
        assert len(fault.detail) < 3 * CLIPPED


def test_a_fault_can_be_printed_whatever_the_name() -> None:
    """A name is shown in logs and on terminals: controls and lone surrogates are escaped there."""
    assert shorten("a\x1b[2J\ud800") == "a\\x1b[2J\\ud800"
    assert shorten("grün") == "grün"

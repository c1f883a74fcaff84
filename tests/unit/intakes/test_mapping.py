"""Templates over a request: what is there is taken as it is, and all that is not is said."""

from __future__ import annotations

import pytest

from app.errors import SetupError
from app.intakes.arrival import IntakeRequest
from app.intakes.mapping import MissingValue, Template, Unmappable, compile_mapping

BODY = b"""{"kind": "paid", "plant": 7, "ok": true, "price": 1.10, "nothing": null, "list": [{"a/b": "slash"}],
 "at": "2026-11-21T00:00:00Z", "seconds": 1686089970, "empty": "", "~": "tilde", "text": "\\u00fc\\n"}"""


def arrival(*headers: tuple[str, str], body: bytes = BODY) -> IntakeRequest:
    return IntakeRequest([(name.encode(), value.encode()) for name, value in headers], body)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("constant", "constant"),
        ("com.example.{pointer:/kind}", "com.example.paid"),
        ("{pointer:/plant}/{pointer:/ok}/{pointer:/price}", "7/true/1.10"),
        ("{pointer:/list/0/a~1b}{pointer:/~0}", "slashtilde"),
        ("{header:X-Request-Id}", "r-1"),
        ("{{{pointer:/kind}}}", "{paid}"),
        ("{pointer:/text}", "ü\n"),
        ("{pointer:/empty}", ""),
    ],
)
def test_a_template_is_filled(template: str, text: str) -> None:
    assert Template(template).text(arrival(("x-request-id", "r-1"))) == text


def test_a_header_is_the_same_in_any_case_and_repeated_in_any_case() -> None:
    """``ce-x-`` is the one whose case is kept on its way in."""
    found = arrival(("ce-X-One", "1"), ("ce-X-Two", "a"), ("ce-x-two", "b"))
    assert Template("{header:ce-x-one}").text(found) == "1"
    with pytest.raises(MissingValue) as missing:
        Template("{header:ce-x-two}").text(found)
    assert missing.value.absences == (("header ce-x-two is repeated", "header ce-x-two"),)


@pytest.mark.parametrize(
    "template",
    ["{", "}", "{}", "{kind}", "{header:}", "{pointer:}", "{pointer:kind}", "{header:a b}", "{pointer:/a~2}",
     "{query:x}", "{header:x"],
)  # fmt: skip
def test_what_names_nothing_is_no_template(template: str) -> None:
    with pytest.raises(SetupError) as error:
        Template(template, "event.id")
    assert (error.value.setting, bool(error.value.cure)) == ("event.id", True)


def test_an_id_that_never_changes_is_refused() -> None:
    """Everything behind would take all events for one."""
    with pytest.raises(SetupError, match="the same for every event"):
        compile_mapping({"id": ("1",), "type": ("t",), "source": ("/s",)})


TEMPLATES = {
    "id": ("{header:x-request-id}",),
    "type": ("com.example.{pointer:/kind}.{pointer:/list}",),
    "source": ("/erp/{pointer:/nothing}",),
    "subject": ("{pointer:/text}",),
    "time": ("{pointer:/kind}",),
}


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(Unmappable) as error:
        compile_mapping(TEMPLATES)(arrival(("content-type", "not a type")), 0)
    told = {(fault.code, fault.at) for fault in error.value.faults}
    assert told == {
        ("missing-value", "header x-request-id"),
        ("missing-value", "/list"),
        ("missing-value", "/nothing"),
        ("forbidden-character", "subject"),
        ("bad-timestamp", "time"),
        ("bad-media-type", "datacontenttype"),
    }
    assert len(error.value.faults) == 6


@pytest.mark.parametrize(
    ("pointer", "time"),
    [("/at", "2026-11-21T00:00:00Z"), ("/seconds", "2023-06-06T22:19:30Z")],
)
def test_a_time_is_text_or_seconds(pointer: str, time: str) -> None:
    templates = {"id": ("{pointer:/kind}",), "type": ("t",), "source": ("/s",)}
    mapper = compile_mapping({**templates, "time": (f"{{pointer:{pointer}}}",)})
    assert mapper(arrival(), 0)["time"] == time


def test_a_repeated_header_is_a_fault() -> None:
    """Which one is meant nobody knows."""
    mapper = compile_mapping({"id": ("{header:x-id}",), "type": ("t",), "source": ("/s",)})
    with pytest.raises(Unmappable) as error:
        mapper(arrival(("x-id", "1"), ("x-id", "2")), 0)
    assert error.value.faults[0].detail == "id: header x-id is repeated."


def test_fields_of_a_form_are_found_by_name() -> None:
    templates = {"id": ("{pointer:/trigger}",), "type": ("t.{pointer:/a b}",), "source": ("/s",)}
    form = arrival(
        ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        body=b"trigger=1%2B2&a+b=%C3%BC&trigger=last",
    )
    found = compile_mapping(templates)(form, 0)
    assert (found["id"], found["type"]) == ("last", "t.ü")


@pytest.mark.parametrize("body", [b"%ff=%ff", b"\xff=1", b"&".join([b"a=1"] * 1001)])
def test_a_form_that_is_none_has_no_fields(body: bytes) -> None:
    mapper = compile_mapping({"id": ("{pointer:/a}",), "type": ("t",), "source": ("/s",)})
    with pytest.raises(Unmappable):
        mapper(arrival(("content-type", "application/x-www-form-urlencoded"), body=body), 0)


def test_what_comes_out_of_a_request_is_never_a_template() -> None:
    """A sender that writes braces gets braces."""
    mapper = compile_mapping({"id": ("{pointer:/a}",), "type": ("t",), "source": ("/s",)})
    assert (
        mapper(arrival(body=b'{"a":"{header:authorization}"}'), 0)["id"] == "{header:authorization}"
    )

"""Templates over attributes, and topic names made of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import SetupError
from app.routing.templates import (
    BadTopic,
    compile_template,
    compile_topic,
    demanded,
    placeholders,
)

EVENT = {"type": "com.example.order", "source": "/s", "1": "one", "dot": "."}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{type}", "com.example.order"),
        ("a.{type}.{source}", "a.com.example.order./s"),
        ("{type}{type}", "com.example.ordercom.example.order"),
        ("{1}", "one"),
        ("{{type}}", "{type}"),
        ("{{{type}}}", "{com.example.order}"),
        ("100%{type}%s%", "100%com.example.order%s%"),
    ],
)
def test_a_template_puts_attributes_in_place(text: str, made: str) -> None:
    """Everything outside of single braces stays as it was written, percent signs too."""
    assert compile_template(text)(EVENT) == made


@pytest.mark.parametrize(
    "text",
    [
        "{Type}",
        "{}",
        "{ty pe}",
        "{a.b}",
        "{data}",
        "{type",
        "type}",
        "{{type}",
        "{type!r}",
        "{0:>9}",
    ],
)
def test_a_placeholder_that_no_event_can_fill_is_refused_at_the_start(text: str) -> None:
    """It would otherwise refuse every event, one by one."""
    with pytest.raises(SetupError) as refused:
        compile_template(text, setting="routes[0].key.template")
    assert refused.value.setting == "routes[0].key.template"
    assert refused.value.cure


def test_a_missing_attribute_is_named() -> None:
    """The caller decides what missing means: no key, or a refusal."""
    with pytest.raises(KeyError, match="subject"):
        compile_template("{type}/{subject}")(EVENT)


ESCAPED = st.text().map(lambda text: (text, text.replace("{", "{{").replace("}", "}}")))


@given(ESCAPED, st.text())
def test_escaped_text_comes_out_as_it_was(text: tuple[str, str], value: str) -> None:
    """Any text can be written, and no value of an attribute is ever read as a template."""
    plain, written = text
    assert compile_template(written + "{x}" + written)({"x": value}) == plain + value + plain


def test_placeholders_are_listed() -> None:
    """Checks of the configuration ask for them; escaped braces hold none."""
    assert placeholders("{b}.{{c}}.{a}") == ("b", "a")


def test_an_attribute_with_a_default_is_read_but_not_demanded() -> None:
    """Two events may differ in it, so nothing that depends on the text is the same for both."""
    assert placeholders("{b ?? none}.{a}") == ("b", "a")
    assert demanded("{b ?? none}.{a}") == ("a",)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("orders", "orders"),
        ("orders.{type}", "orders.com.example.order"),
        ("A-_.9", "A-_.9"),
        ("x" * 249, "x" * 249),
    ],
)
def test_a_legal_topic_is_made(text: str, made: str) -> None:
    """Kafka's grammar: letters, digits, dot, dash, underscore, at most 249."""
    assert compile_topic(text)(EVENT) == made


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a b", "a/b", "grün", "x" * 250, "a/{type}", "{{{type}"]
)
def test_a_topic_that_can_never_be_is_refused_at_the_start(text: str) -> None:
    """The operator's fault must not become the sender's."""
    with pytest.raises(SetupError) as refused:
        compile_topic(text, setting="routes[0].to[0].topic")
    assert refused.value.setting == "routes[0].to[0].topic"


@pytest.mark.parametrize(
    ("text", "attributes", "guilty"),
    [
        ("{type}.{source}", EVENT, "source"),
        ("{dot}", EVENT, "dot"),
        ("{dot}{dot}", EVENT, "dot"),
        ("{type}", {"type": "x" * 250}, "type"),
        ("{type}.{subject}", EVENT, "subject"),
        ("{type}", {"type": "a\n"}, "type"),
    ],
)
def test_an_attribute_that_makes_no_topic_is_the_senders_fault(
    text: str, attributes: dict[str, str], guilty: str
) -> None:
    """400, and the attribute to change is named."""
    with pytest.raises(BadTopic) as refused:
        compile_topic(text)(attributes)
    error = refused.value
    assert (error.status, error.code) == (400, "bad-topic")
    assert (error.faults[0].at, error.faults[0].code) == (guilty, "bad-topic")
    assert guilty in error.faults[0].detail
    assert len(error.faults[0].detail) < 400


@given(st.text())
def test_nothing_but_a_legal_topic_leaves(value: str) -> None:
    """An attribute is the sender's: it must not reach the broker as a name with other meaning."""
    topic = compile_topic("t.{x}")
    try:
        made = topic({"x": value})
    except BadTopic:
        assert not re.fullmatch(r"[a-zA-Z0-9._-]{1,247}", value)
    else:
        assert made == f"t.{value}"
        assert re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", made)

"""YAML 1.2 with the place of every setting."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.load.document import parse
from app.config.load.finding import BadConfiguration, Location
from app.config.load.yaml_core import dump


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("5", 5),
        ("010", 10),  # not octal
        ("0o10", 8),
        ("0x1F", 31),
        ("+1_000", 1000),
        ("1e3", 1000.0),
        ("-.inf", -float("inf")),
        ("1.", 1.0),
        ("0b", "0b"),
        ("1.2.3", "1.2.3"),
        ("1.5", 1.5),
        ("true", True),
        ("False", False),
        ("no", "no"),  # YAML 1.1 would say False
        ("on", "on"),
        ("~", None),
        ("", None),
        ("null", None),
        ("NULL", None),
        ("yes", "yes"),
        ("=", "="),
        ("1:30", "1:30"),
        ("12:30:45", "12:30:45"),  # YAML 1.1 would count in sixties
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),  # kept as text
        ("'5'", "5"),
        ('"a\\nb"', "a\nb"),
        ("${env:X}", "${env:X}"),
    ],
)
def test_a_scalar_is_what_yaml_1_2_says(scalar: str, value: Any) -> None:
    """A country code NO, a time or a time of day must not turn into something else."""
    made = parse(f"key: {scalar}\n".encode()).root["key"]
    assert made == value
    assert type(made) is type(value)


def test_every_setting_has_its_line_and_column() -> None:
    """Errors point at what was written, also in flow style and in lists."""
    document = parse(b"version: 1\nroutes:\n  - name: a\n    to: {broker: b, topic: t}\n")
    assert document.places.find(("version",)) == Location(1, 1)
    assert document.places.find(("routes", 0)) == Location(3, 5)
    assert document.places.find(("routes", 0, "name")) == Location(3, 5)
    assert document.places.find(("routes", 0, "to", "topic")) == Location(4, 21)
    assert document.place(("routes", 0, "key", "mapper")) == Location(
        3, 5
    )  # not written: what holds it


def test_every_duplicate_key_is_found() -> None:
    """The second one would silently win; the first line is named."""
    document = parse(b"a: 1\nb: {c: 1, c: 2}\na: 2\n")
    assert [str(each) for each in document.findings] == [
        "line 2: error b.c: The setting appears twice, for the first time in line 2. Cure: Remove one of the two lines.",
        "line 3: error a: The setting appears twice, for the first time in line 1. Cure: Remove one of the two lines.",
    ]


def test_anchors_and_merges_work() -> None:
    """Long files share parts; what is written beside a merge wins."""
    document = parse(
        b"base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo: {<<: [*b, {z: 4}]}\nsame: *b\n"
    )
    assert document.root["one"] == {"x": 1, "y": 3}
    assert document.root["two"] == {"x": 1, "y": 2, "z": 4}
    assert document.root["same"] == {"x": 1, "y": 2}
    assert not document.findings


def test_a_merge_of_a_merge_works() -> None:
    """The nearer one wins."""
    document = parse(b"a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2, z: 2}\nc: {<<: *b, z: 3}\n")
    assert document.root["c"] == {"x": 1, "y": 2, "z": 3}
    assert not document.findings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            b"a: &a {b: *a}\n",
            "line 1: error a.b: The alias refers to a list or mapping that contains the alias",
        ),
        (b"a: !secret x\n", "line 1: error a: The YAML tag !secret is unknown"),
        (b"true: 1\n", "line 1: error: The name of a setting is not text"),
        (b"[1]: 1\n", "line 1: error: The name of a setting is not text"),
        (b"a: {<<: 5}\n", "line 1: error a: The key << merges only mappings"),
        (b"a: &a {<<: *a}\n", "line 1: error a: The key << merges only mappings"),
        (b"a: 0b_\n", "line 1: error a: The value is not a valid int"),
        (b"a: 0x_\n", "line 1: error a: The value is not a valid int"),
        (b"a: " + b"9" * 5_000, "line 1: error a: The value is not a valid int"),
        (b"a: 0x" + b"f" * 5_000, "line 1: error a: The value is not a valid int"),
        (b"a: !!int x\n", "line 1: error a: The value is not a valid int"),
        (b"a: !!float x\n", "line 1: error a: The value is not a valid float"),
        (b"a: !!bool x\n", "line 1: error a: The value is not a valid bool"),
    ],
)
def test_what_yaml_allows_and_we_do_not_is_a_finding(text: bytes, message: str) -> None:
    """None of these may end in a trace or without an end."""
    (finding,) = parse(text).findings
    assert str(finding).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "line 1: error: The file is empty"),
        (b"# only this\n", "line 1: error: The file is empty"),
        (b"- a\n", "line 1: error: The file is not a mapping"),
        (b"text\n", "line 1: error: The file is not a mapping"),
        (b"a: 1\nb: \xff\n", "line 2: error: The file is not UTF-8"),
        (b"a: 1\nb: [\n", "line 3: error: The file is not valid YAML"),
        (b"a: 1\nb: [", "line 2: error: The file is not valid YAML"),
        (
            b"a: {p: ${env:X}}\n",
            "line 1: error: The file is not valid YAML: did not find expected ',' or '}'",
        ),
        (
            b"a: 1\n---\nb: 2\n",
            "line 2: error: The file is not valid YAML: but found another document",
        ),
        (b"a: *nothing\n", "line 1: error: The file is not valid YAML: found undefined alias"),
        (b"a: " + b"[" * 100_000, "line 1: error: The values are nested too deeply"),
        (b"a: \x00\n", "line 1: error: The file has a character that YAML does not allow"),
    ],
)
def test_what_is_no_mapping_is_refused(text: bytes, message: str) -> None:
    """A file that is cut off or of another kind must not start a service on defaults."""
    with pytest.raises(BadConfiguration) as refused:
        parse(text)
    (finding,) = refused.value.findings
    assert str(finding).startswith(message)
    assert finding.cure


_LAUGHS = b"a0: &a0 [x, x]\n" + b"".join(
    b"a%d: &a%d [%b]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)
)
_MERGES = b"a0: &a0 {x: 1}\n" + b"".join(
    b"a%d: &a%d {<<: [%b]}\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)
)
_WIDE = (  # half a megabyte, 200 million pairs
    b"a: &a {%b}\n" % b", ".join(b"k%d: 1" % n for n in range(20_000))
    + b"b: {<<: [%b]}\n" % b", ".join([b"*a"] * 10_000)
)
_HIDDEN = b"a: &a {%b}\n" % b", ".join(b"k%d: 1" % n for n in range(1_000)) + b"".join(
    b"b%d: {%b, <<: *a}\n" % (n, b", ".join(b"k%d: 2" % k for k in range(10))) for n in range(200)
)
_NESTED_MERGES = b"a: " + b"{<<: " * 120 + b"{x: 1}" + b"}" * 120
_CHAIN = b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d]\n" % (n, n, n - 1) for n in range(1, 3_000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_LAUGHS, "The aliases and merges repeat more than 100000 values"),
        (_MERGES, "The aliases and merges repeat more than 100000 values"),
        (_WIDE, "The aliases and merges repeat more than 100000 values"),
        (_HIDDEN, "The aliases and merges repeat more than 100000 values"),
        (_NESTED_MERGES, "The values are nested too deeply"),
        (_CHAIN, "The values are nested too deeply"),
    ],
)
def test_aliases_of_aliases_end(text: bytes, message: str) -> None:
    """The API reads configurations of callers: a few hundred bytes must not take all memory (rule 8)."""
    with pytest.raises(BadConfiguration, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        (b"a:\n\tb: 1\n", "Indent the line with spaces, because YAML does not allow tabs."),
        (b"a: {p: ${env:X}}\n", 'Quote text that has any of : { } [ ] , #, such as "${env:NAME}".'),
    ],
)
def test_a_tab_is_cured_by_spaces_and_a_brace_by_quotes(text: bytes, cure: str) -> None:
    """The cure is one of this fault."""
    with pytest.raises(BadConfiguration) as refused:
        parse(text)
    assert refused.value.findings[0].cure == cure


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc: {}[]#'\"\n$é", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text("abc", min_size=1), VALUES, min_size=1, max_size=3))
def test_what_was_written_is_read(value: dict[str, Any]) -> None:
    """Our reader builds values itself. JSON is YAML 1.2, and its writer knows nothing of ours."""
    assert parse(json.dumps(value).encode()).root == value


ODD = st.sampled_from(
    [
        "no",
        "0o10",
        "010",
        "1_000",
        "1e3",
        ".inf",
        "=",
        "<<",
        "~",
        "",
        "12:30",
        "2026-01-01",
        "-",
        "${env:X}",
        "a: b",
    ]
)


@given(
    st.dictionaries(
        st.text("abc", min_size=1), VALUES | ODD | st.lists(ODD), min_size=1, max_size=3
    )
)
def test_what_we_print_is_read_as_it_was(value: dict[str, Any]) -> None:
    """Subscriptions are printed to be pasted into a file: no text becomes a number there."""
    assert parse(dump(value).encode()).root == value

"""Configuration: YAML documents, templates and URLs."""

from __future__ import annotations

from contextlib import suppress

from app.config.load.document import parse
from app.config.load.finding import BadConfiguration
from app.config.load.loader import load_text
from app.config.load.yaml_core import dump
from app.delivery.target_url import foreign_characters, is_listed, read_url, with_parameter
from app.errors import SetupError
from app.event.value import CloudEvent, DataForm
from app.intakes.mapping import Template
from app.outlets.places import Compiler, ValueAbsent
from app.outlets.values import ShapingEvent, Unshapeable
from app.routing.templates import (
    BadTopic,
    compile_template,
    compile_topic,
    filled,
    is_topic,
    placeholders,
)
from app.telemetry.printable import printable
from fuzz.target import Target, demand
from pages import CHECKOUT

_ATTRIBUTES = {
    "specversion": "1.0",
    "id": "1",
    "source": "/a b",
    "type": "t.%s",
    "time": "2026-11-20T10:00:00Z",
}
_EVENT = CloudEvent(_ATTRIBUTES, b'{"a":{"b":[1,"x/y",null]},"\\ud83d":"\\ud83d"}', DataForm.JSON)  # fmt: skip


def check_yaml(data: bytes) -> None:
    """Load a configuration, or refuse it with findings that can be printed. What is dumped is read again."""
    try:
        document = parse(data)
    except BadConfiguration as error:
        demand(_are_printable(error))
        return
    if not document.findings and b"&" not in data:
        again = parse(dump(document.root).encode())
        assert repr(again.root) == repr(document.root)
    try:
        load_text(data, "fuzzed.yaml", {})
    except BadConfiguration as error:
        demand(_are_printable(error))


def _are_printable(error: BadConfiguration) -> bool:
    return bool(error.findings) and all(
        printable(str(each)) == str(each) for each in error.findings
    )


def check_templates(data: bytes) -> None:
    """Compile a text as each kind of template, and fill it."""
    text = data.decode("utf-8", "replace")
    try:
        template = compile_template(text)
    except SetupError:
        assert "{" in text or "}" in text
    else:
        known = set(placeholders(text)) <= set(_ATTRIBUTES)
        try:
            made = filled(template, _ATTRIBUTES)
        except BadTopic:
            assert not known
        else:
            assert {"{", "}"} & set(text) or made == text
    _topic(text)
    _outlet(text)
    with suppress(SetupError):
        Template(text)


def _topic(text: str) -> None:
    try:
        topic = compile_topic(text)
    except SetupError:
        return
    try:
        assert is_topic(topic(_ATTRIBUTES))
    except BadTopic as error:
        demand(bool(error.faults))


def _outlet(text: str) -> None:
    """Compile a text as the header, path, query and JSON of an outlet."""
    for way in ("header", "path", "query", "form", "json_text"):
        compiler = Compiler(lambda _: "secret")
        try:
            made = getattr(compiler, way)(text, "setting")
        except SetupError:
            continue
        parts = made if isinstance(made, list) else [made]
        try:
            found = [
                part if isinstance(part, str | bytes) else part(ShapingEvent(_EVENT))
                for part in parts
            ]
        except (Unshapeable, ValueAbsent):
            continue
        for each in found:
            assert way != "header" or not {"\r", "\n", "\0"} & set(each)
            assert way not in {"query", "form"} or each.isascii()


def check_url(data: bytes) -> None:
    """Read a URL, or refuse it. The absolute form of the request target is the same URL."""
    text = data.decode("utf-8", "replace")
    foreign_characters(text)
    try:
        url = read_url(text)
    except ValueError:
        return
    assert url.target.startswith("/")
    assert all("!" <= each <= "~" for each in url.target + url.authority + url.host)
    again = read_url(url.text)
    host = url.host.removesuffix(
        "."
    )  # a final full stop is not sent, and no zone of an IPv6 address
    host = host.partition("%")[0] if ":" in host else host
    assert (again.host, again.port, again.target) == (host, url.port, url.target)
    assert is_listed([url.text], text) or "*" in text
    assert read_url(with_parameter(url.text, "a", "b")).target.endswith("a=b")


_CONFIGURATIONS = sorted((CHECKOUT / "docs" / "examples").rglob("*.yaml"))
TARGETS = (
    Target(
        "yaml",
        check_yaml,
        [b"version: 1\n", b"a: &x {b: [1, 0x10, 1e3, ~]}\n<<: *x\n", *(each.read_bytes()[:3000] for each in _CONFIGURATIONS)],
        [b"&a ", b"*a", b"<<: ", b"!!int ", b"!!binary ", b"? ", b"| \n", b"> \n", b"${env:A}", b"${file:/x}", b"$$",
         b"\n- ", b"brokers:", b"routes:", b"subscriptions:", b"kind: embedded", b"0x_", b".inf", b"\xef\xbb\xbf"],
    ),
    Target(
        "templates",
        check_templates,
        [b"orders.{type}", b"{{a}}{id ?? none}", b"/a/{pointer:/a/b/1}", b"{time:%Y-%m-%d}", b"{$data}", b"{header:x-a}"],
        [b"{", b"}", b"{{", b"}}", b" ?? ", b"{pointer:/", b"{time:%", b"{$attributes}", b"~0", b"~1", b"%2F", b".."],
    ),
    Target(
        "urls",
        check_url,
        [b"https://u:p@host.example:8443/a%2Fb/../c?x=%20&y#f", b"http://[::1%25eth0]/", b"http://\xc3\xbc.example/\xc3\xbc?\xc3\xbc"],
        [b"://", b"@", b"[", b"]", b"%", b"%2e", b"/../", b"?", b"#", b"\t", b"\0", b"xn--", b":0", b"\xe3\x80\x82"],
    ),
)  # fmt: skip

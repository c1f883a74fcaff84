"""A URL is read once, the same way at the desk and at delivery, and its target is what was written."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.delivery.target_url import foreign_characters, is_listed, read_url, with_parameter

PIECES = (
    *("a", "B", ".", "..", "/", "//", "?", "#", "@", ":", "%", "%4", "%40", "%2f", "%zz", "[", "]"),
    *("{", " ", "\t", "\\", "\u00fc", "&", "=", "+", ";", "~", "*", "\x00", "\x7f", "\ud83d", "h"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


@given(TEXTS, st.sampled_from(["http://", "https://", "https://h/", "https://h/?"]))
@example("[]@", "http://")
def test_any_text_is_read_or_refused_and_its_target_is_of_rfc_3986(rest: str, begin: str) -> None:
    foreign_characters(begin + rest)
    try:
        url = read_url(begin + rest)
    except ValueError:
        return
    assert url.target.startswith("/")
    assert foreign_characters(f"https://h{url.target}") == ""


@given(TEXTS)
def test_what_is_of_rfc_3986_is_not_touched(rest: str) -> None:
    url = f"https://h.example/{rest}"
    if not foreign_characters(url):
        assert read_url(url).target == url.removeprefix("https://h.example").partition("#")[0]


@pytest.mark.parametrize(
    ("text", "host", "port", "authority", "login"),
    [
        ("https://H.Example:443/x", "h.example", 443, "h.example", None),
        ("http://h:8080", "h", 8080, "h:8080", None),
        ("https://h:", "h", 443, "h", None),
        (
            "https://b\u00fccher.example",
            "xn--bcher-kva.example",
            443,
            "xn--bcher-kva.example",
            None,
        ),
        ("https://[::FFFF:127.0.0.1]:1", "::ffff:7f00:1", 1, "[::ffff:7f00:1]:1", None),
        ("https://[fe80::1%25eth0]:1", "fe80::1%eth0", 1, "[fe80::1]:1", None),
        ("https://127.0.0.1./", "127.0.0.1.", 443, "127.0.0.1", None),
        ("https://h.example./", "h.example.", 443, "h.example", None),
        ("https://a_b.-c.example", "a_b.-c.example", 443, "a_b.-c.example", None),
        ("https://\uff11\uff12\uff17.0.0.1/", "127.0.0.1", 443, "127.0.0.1", None),
        ("https://\u02fc.U:1", "xn--gsa.u", 1, "xn--gsa.u:1", None),  # no name of IDNA 2008
        ("https://u:p%40@h", "h", 443, "h", b"u:p@"),
        ("https://@h", "h", 443, "h", None),
    ],
)
def test_host_and_login(
    text: str, host: str, port: int, authority: str, login: bytes | None
) -> None:
    url = read_url(text)
    assert (url.host, url.port, url.authority, url.login) == (host, port, authority, login)


@pytest.mark.parametrize(
    "text",
    [
        "https://",
        "https:///x",
        "https://:1/",
        "https://a b/",
        "https://h:99999",
        "https://[::1",
        "ftp://h/",
    ],
)
def test_what_is_no_url_of_a_target_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not a URL to post to$"):
        read_url(text)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost..", ".localhost", "a..b.example", "x" * 64),
        *(
            "127.0.0.1%00",
            "%.4",
            "a*.0x7f",
            "*.example",
            "$HOST",
            "(a).example",
            "[v1.a]",
            "a,b",
            "[::1].",
            "a~b",
        ),
        *(".".join(["a" * 63] * 4), ".", "xn--a.b\u3002.c", "a%2e%2e"),
    ],
)
def test_a_host_that_no_name_server_can_know_is_refused(host: str) -> None:
    """By the one reader of the API, ``check`` and the sinks."""
    with pytest.raises(ValueError) as refusal:
        read_url(f"https://{host}/")
    assert host not in str(refusal.value) or host == "."


@pytest.mark.parametrize(
    ("url", "whole"),
    [("h/x", "h/x?n=v"), ("h/x?", "h/x?n=v"), ("h/x?a#b", "h/x?a&n=v"), ("h/x?a&", "h/x?a&n=v")],
)
def test_a_parameter_goes_behind_the_others(url: str, whole: str) -> None:
    assert with_parameter(url, "n", "v") == whole


@pytest.mark.parametrize(
    ("entry", "url", "named"),
    [
        ("hooks.example", "https://hooks.example/a", True),
        ("hooks.example", "https://HOOKS.example:8443/a", True),
        ("hooks.example", "https://hooks.example.evil/a", False),
        ("hooks.example", "https://hooks.example@evil/a", False),
        ("*.example", "https://a.example/", True),
        ("*.example", "https://a.example.evil/", False),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://11.1.2.3/", False),
        ("https://hooks.example", "https://hooks.example/a?b", True),
        ("https://hooks.example", "https://hooks.example:8443/a", False),
        ("https://hooks.example", "http://hooks.example/a", False),
        ("https://hooks.example", "https://hooks.example.evil/", False),
        ("https://hooks.example/a", "https://hooks.example/a", True),
        ("https://hooks.example/a", "https://hooks.example/a/b", False),
        ("https://hooks.example/a/*", "https://hooks.example/a/b", True),
        ("https://hooks.example/a/*", "https://hooks.example/b", False),
        ("https://hooks.example/a/*", "https://hooks.example/a/../b", False),
        ("https://hooks.example/a/*", "https://hooks.example/a/%2e%2E/b", False),
        ("https://hooks.example/a/*", "https://user:pw@hooks.example/a/b", True),
        ("https://hooks.example/a/*", "https://hooks.example/a/b?x=/../", True),
    ],
)
def test_an_entry_names_a_host_an_origin_or_a_beginning(entry, url, named):
    assert is_listed((entry,), url) is named

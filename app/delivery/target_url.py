"""URLs of requests. The target in the request line has the characters of the configured URL.

A reserved character and its percent code are not equivalent (RFC 3986 2.2). A target that signs its URL, or
reads ``%2F`` as data, refuses a URL that was normalised. So no percent code is decoded, no dot segment is
removed, and an empty query keeps its question mark. Only characters that RFC 3986 does not allow are encoded.
The command ``check`` warns of such characters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, unquote, unquote_to_bytes

import msgspec
from yarl import URL

from app.delivery.address_guard import host_allowed, is_address, is_literal

_HOST = re.compile(r"[!-~]+")  # a space or NUL would break the request head
_NO_CODE = "%(?![0-9A-Fa-f]{2})"
_LABEL = re.compile(r"[-A-Za-z0-9_]+")
_LITERAL_PART = r"([-A-Za-z0-9_]|%[0-9A-Fa-f]{2})+"
_LITERAL = re.compile(rf"{_LITERAL_PART}(\.{_LITERAL_PART})*\.?")
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
_PATH_TAKES = "-A-Za-z0-9._~!$&'()*+,;=:@/%"
_FOREIGN_PATH = re.compile(f"{_NO_CODE}|[^{_PATH_TAKES}]+")
_FOREIGN_QUERY = re.compile(f"{_NO_CODE}|[^{_PATH_TAKES}?]+")
_FOREIGN_AUTHORITY = re.compile(rf"{_NO_CODE}|[^-A-Za-z0-9._~!$&'()*+,;=:@%\[\]\x80-\U0010ffff]+")
_ZONE = re.compile(r"%[^\]]*(?=\])")  # the zone of an IPv6 address is not sent (RFC 6874 3)
_DOTS = re.compile(r"/\.\.?(/|$)")
_DROPPED = str.maketrans("", "", "\t\r\n")  # every URL parser drops these
_LEADING = "".join(map(chr, range(0x21)))  # every URL parser strips these at the start


class TargetUrl(msgspec.Struct, frozen=True):
    """A URL as a request uses it.

    ``host`` is the name or address to connect to: IDNA, lower case, without brackets. ``authority`` is the value of
    ``Host`` (RFC 9110 7.2). ``target`` is the path and query of the request line; its path is never empty.
    ``login`` has the user and the password of the URL, joined by a colon, or None."""

    scheme: str
    host: str
    port: int
    authority: str
    target: str
    login: bytes | None = None

    @property
    def text(self) -> str:
        """Return the absolute form of the request target (RFC 9112 3.2.2)."""
        return f"{self.scheme}://{self.authority}{self.target}"


class BadHost(ValueError):
    """The host of a URL is neither an address nor a name that can be resolved. ``args[0]`` is the reason."""


@lru_cache(maxsize=64)
def read_url(text: str) -> TargetUrl:
    """Read an http or https URL.

    Raises:
        ValueError: the text is not an http or https URL. The message does not repeat the text, which may
            contain a secret.
        BadHost: the host is neither an address nor a valid name, so no request can be sent.
    """
    try:
        url = URL(text)
        port = url.port
    except (ValueError, IndexError):  # yarl's, of a bracket before an empty host
        raise ValueError("not a URL to post to") from None
    host = _small(url.raw_host or "")
    if url.scheme not in {"http", "https"} or not port or not _HOST.fullmatch(host):
        raise ValueError("not a URL to post to")
    if fault := _fault_of_host(host, bracketed="[" in _split(text)[1]):
        raise BadHost(fault)
    login, _, path, query = _split(text)
    return TargetUrl(
        scheme=url.scheme,
        host=host.replace("%25", "%", 1) if ":" in host else host,
        port=port,
        authority=_small(_ZONE.sub("", url.host_port_subcomponent or "")),
        target=_encoded(_FOREIGN_PATH, path or "/", "%20") + _encoded(_FOREIGN_QUERY, query, "+"),
        login=None if login is None else _login(login),
    )


def _small(host: str) -> str:
    """Return a host name in small letters. yarl keeps capital ones if another label is not of IDNA 2008.

    An IPv6 address stays as it is, because its zone may have capital letters."""
    return host if ":" in host.rpartition(":")[0] else host.lower()


def _fault_of_host(host: str, *, bracketed: bool) -> str:
    """Return why a host is neither an address nor a DNS name (RFC 1035 2.3.4), or "" if it may be one."""
    if bracketed or ":" in host:
        fits = ":" in host and is_address(host) and not host.endswith(".")
        return "" if fits else "it is no IPv6 address"
    if is_literal(host) and _LITERAL.fullmatch(host):
        return ""  # the address guard checks its spelling
    name = host.removesuffix(".")
    if len(name) > _LONGEST_NAME:
        return f"it has more than {_LONGEST_NAME} characters"
    for label in name.split("."):
        if not 0 < len(label) <= _LONGEST_LABEL:
            return (
                f"a part between full stops is empty or has more than {_LONGEST_LABEL} characters"
            )
        if not _LABEL.fullmatch(label):
            return "it has characters other than letters, digits, hyphens and underscores"
    return ""


def foreign_characters(text: str) -> str:
    """Return the characters of an http or https URL that RFC 3986 does not allow at their places, without
    repetitions.

    A fragment is ignored, because it is not sent. A host in another script is allowed, because IDNA encodes it.
    """
    _, authority, path, query = _split(text, keep=True)
    found = (
        *_FOREIGN_AUTHORITY.findall(authority),
        *_FOREIGN_PATH.findall(path),
        *_FOREIGN_QUERY.findall(query.removeprefix("?")),
    )
    return "".join(dict.fromkeys("".join(found)))


def is_listed(entries: Iterable[str], url: str) -> bool:
    """Return True if an entry names this URL: by host or network, origin, whole URL, or path prefix with a final
    ``*``.

    A prefix never names a path with dot segments, because the target may resolve them."""
    read = read_url(url)
    for entry in entries:
        if "://" not in entry:
            if host_allowed(read.host, (entry,)):
                return True
            continue
        try:
            named = read_url(entry.removesuffix("*"))
        except ValueError:  # ``check`` reports the entry
            continue
        if read.text == named.text and not entry.endswith("*"):
            return True
        begins = entry.endswith("*") or "/" not in entry.partition("://")[2]
        dotted = named.target != "/" and _DOTS.search(unquote(read.target.partition("?")[0]))
        if begins and read.text.startswith(named.text) and not dotted:
            return True
    return False


def with_parameter(url: str, name: str, value: str) -> str:
    """Return the URL without its fragment and with one more query parameter. The value is not encoded."""
    whole = url.partition("#")[0]
    sign = "?" if "?" not in whole else "" if whole.endswith(("?", "&")) else "&"
    return f"{whole}{sign}{name}={value}"


def target_extension(url: str) -> dict[str, bytes]:
    """Return the httpx extension that sends the target as written, because httpx removes dot segments by default.

    The result is empty if httpx does not change the target, or if the URL has characters that httpx must
    encode."""
    if not _DOTS.search(_split(url)[2]) or foreign_characters(url):
        return {}
    return {"target": read_url(url).target.encode()}


def _split(text: str, *, keep: bool = False) -> tuple[str | None, str, str, str]:
    """Return user and password, host and port, path, and query with its question mark.

    Args:
        text: the URL.
        keep: whether to keep the characters that URL parsers drop.
    """
    if not keep:
        text = text.lstrip(_LEADING).translate(_DROPPED)
    rest = text.partition("#")[0].partition("://")[2]
    beyond = re.search("[/?]", rest)
    authority, rest = (
        (rest, "") if beyond is None else (rest[: beyond.start()], rest[beyond.start() :])
    )
    login, _, place = authority.rpartition("@")
    path, mark, query = rest.partition("?")
    return login or None, place, path, mark + query


def _encoded(foreign: re.Pattern[str], text: str, space: str) -> str:
    def code(found: re.Match[str]) -> str:
        return quote(found[0], safe="", errors="ignore").replace("%20", space)

    return foreign.sub(code, text)


def _login(written: str) -> bytes:
    user, _, password = written.partition(":")
    return unquote_to_bytes(user) + b":" + unquote_to_bytes(password)

"""Pure. The heads that senders repeat, each compiled to one strict pattern.

A sender repeats the names, the order and most values of its header fields. A head that came often is compiled to a
pattern. The pattern reads the next head of this form in one step instead of a callback for each field. It accepts only
heads that httptools reads in the same way. Every other head goes to httptools, and so does every request that does not
arrive whole and alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.bindings.headers import FIELD_NAMES

HeaderPairs = list[tuple[bytes, bytes]]

OFTEN = 64  # requests with a head before it is compiled, which takes as long as some 50 requests
_LAYOUTS = 256  # compiled heads of a listener
_COUNTED = 1024  # heads that are counted
_LONGEST = 2048  # bytes of names and fixed values in a head that may be compiled

_LENGTH, _HOST = b"content-length", b"host"
_FIXED = frozenset(
    {
        _HOST,
        b"content-type",
        b"user-agent",
        b"accept",
        b"accept-encoding",
        b"accept-language",
        b"connection",
    }
)
"""Fields whose values a sender repeats. Their values are part of the pattern."""
_VERSION = b"ce-specversion"  # part of the pattern too, but read as the other attributes
_DEMANDING = frozenset(
    {
        b"content-encoding",
        b"expect",
        b"origin",
        b"prefer",
        b"skybridge-key",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Fields that ask for more than to store one event. A head with one of them is never compiled."""

_ATTRIBUTE = b"([!#$&-~]++)"  # no space, quote or percent sign: the text is the value
_OTHER = b"([!-~]++(?: [!-~]++)*+)"
_DIGITS = b"(0|[1-9][0-9]{0,9})"
"""Patterns of values. They never try a value twice, so a head is read or refused in linear time."""


class HeadLayout:
    """A compiled head.

    Attributes:
        names: the names of the header fields, in order, as ``FIELD_NAMES`` gives them.
        fixed: the values that are part of the pattern, by name.
        varying: the names of the fields whose values are read.
        route: the route in the path, or None.
    """

    __slots__ = ("_length", "_match", "fixed", "names", "route", "varying")

    def __init__(self, line: bytes, fields: list[tuple[bytes, bytes]], route: str | None) -> None:
        """Compile a head. ``fields`` has the names and values as they were sent."""
        named = [(FIELD_NAMES[name], value) for name, value in fields]
        self.names = tuple([name for name, _ in named])
        self.fixed = {name: value for name, value in named if name in _FIXED or name == _VERSION}
        self.varying = tuple([name for name in self.names if name not in _FIXED])
        self.route = route
        self._length = self.varying.index(_LENGTH)
        self._match = re.compile(_pattern(line, fields)).match

    def read(self, data: bytes) -> tuple[tuple[bytes, ...], bytes] | None:
        """Return the varying values and the body of a request that is exactly ``data``, or None."""
        found = self._match(data)
        if found is None:
            return None
        values, end = found.groups(), found.end()
        if len(data) - end != int(values[self._length]):
            return None
        return values, data[end:]

    def headers(self, values: tuple[bytes, ...]) -> HeaderPairs:
        """Return all header pairs of a head with these varying values."""
        given = {**self.fixed, **dict(zip(self.varying, values))}  # noqa: B905 - equal lengths
        return [(name, given[name]) for name in self.names]


class HeadLayouts:
    """The compiled heads of a listener, and the number of times that other heads came.

    ``newest`` is the layout of the newest request whose head is compiled, with which a new connection begins.
    """

    def __init__(self, often: int = OFTEN) -> None:
        self.newest: HeadLayout | None = None
        self._often = often
        self._known: dict[tuple[bytes, ...], HeadLayout] = {}
        self._counts: dict[tuple[bytes, ...], int] = {}

    def learn(
        self, data: bytes, line: bytes, headers: HeaderPairs, route: str | None
    ) -> HeadLayout | None:
        """Return the layout of a request that httptools has read, or None if its head has none.

        A request may be one of those that no pattern reads, although most requests with its head are not. So the head is
        tried again after as many requests.

        Args:
            data: the whole request as it was received.
            line: its first line.
            headers: the header pairs that httptools found in it.
            route: the route in the path.
        """
        key = (line, *_form(headers))
        if sum(map(len, key)) > _LONGEST:  # such keys could fill the memory
            return None
        layout = self._known.get(key)
        if layout is None and self._is_often(key):
            layout = _compiled(data, line, headers, route)
            if layout is not None:
                self._add(key, layout)
        self.newest = layout or self.newest
        return layout

    def _is_often(self, key: tuple[bytes, ...]) -> bool:
        """Count a request. Return True if its head came as often as a head must before it is compiled."""
        if len(self._counts) >= _COUNTED:
            self._counts.clear()
        count = self._counts.pop(key, 0) + 1
        if count >= self._often:
            return True
        self._counts[key] = count
        return False

    def _add(self, key: tuple[bytes, ...], layout: HeadLayout) -> None:
        if len(self._known) >= _LAYOUTS:  # all heads are counted from the beginning again
            self._known.clear()
        self._known[key] = layout


def _form(headers: HeaderPairs) -> Iterator[bytes]:
    """Yield what heads of one layout have in common."""
    for name, value in headers:
        yield name
        if name in _FIXED or name == _VERSION:
            yield value


def _compiled(
    data: bytes, line: bytes, headers: HeaderPairs, route: str | None
) -> HeadLayout | None:
    """Return the layout of a head, or None if no pattern can read it as httptools has read it."""
    names = [name for name, _ in headers]
    needed = _HOST in names and _LENGTH in names and _DEMANDING.isdisjoint(names)
    if not needed or len(set(names)) != len(names):
        return None
    first, *lines = data.partition(b"\r\n\r\n")[0].split(b"\r\n")
    fields = [(name, value) for name, _, value in [each.partition(b": ") for each in lines]]
    if first != line or [(FIELD_NAMES[name], value) for name, value in fields] != headers:
        return None
    layout = HeadLayout(line, fields, route)
    seen = layout.read(data)
    return None if seen is None or layout.headers(seen[0]) != headers else layout


def _pattern(line: bytes, fields: list[tuple[bytes, bytes]]) -> bytes:
    lines = [re.escape(line)]
    for sent, value in fields:
        name = FIELD_NAMES[sent]
        if name in _FIXED:
            text = re.escape(value)
        elif name == _VERSION:
            text = b"(" + re.escape(value) + b")"
        elif name == _LENGTH:
            text = _DIGITS
        else:
            text = _ATTRIBUTE if name.startswith(b"ce-") else _OTHER
        lines.append(re.escape(sent) + b": " + text)
    return b"\r\n".join(lines) + b"\r\n\r\n"

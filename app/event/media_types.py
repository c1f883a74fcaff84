"""Media types: whether the payload is JSON or text, and its charset."""

from __future__ import annotations

import re

import msgspec

from app.event.memo import Memo

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z\-]++"  # noqa: S105 - RFC 9110 5.6.2
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*+"'
_PARAMETER = rf"({_TOKEN}) *+= *+({_TOKEN}|{_QUOTED})"
_MEDIA_TYPE = re.compile(rf" *+({_TOKEN})/({_TOKEN}) *+((?:; *+(?:{_PARAMETER} *+)?+)*+)")
_PARAMETERS = re.compile(_PARAMETER)

# Labels of the charsets that Skybridge decodes, to Python's codecs. Python's registry also holds codecs that
# are no charsets, some of them slow, and caches every miss.
_CHARSETS = {
    "utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "ascii": "ascii",
    "utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
    "utf-32": "utf-32", "utf-32le": "utf-32-le", "utf-32be": "utf-32-be",
    "iso-8859-1": "iso-8859-1", "latin1": "iso-8859-1", "iso-8859-2": "iso-8859-2",
    "iso-8859-5": "iso-8859-5", "iso-8859-7": "iso-8859-7", "iso-8859-9": "iso-8859-9",
    "iso-8859-15": "iso-8859-15", "windows-1250": "cp1250", "windows-1251": "cp1251",
    "windows-1252": "cp1252", "koi8-r": "koi8-r", "gb18030": "gb18030", "gbk": "gbk",
    "gb2312": "gb2312", "big5": "big5", "shift_jis": "shift_jis", "euc-jp": "euc-jp",
    "euc-kr": "euc-kr",
}  # fmt: skip


class MediaType(msgspec.Struct, frozen=True):
    """A parsed media type.

    Attributes:
        essence: ``type/subtype`` in lower case, without parameters.
        charset: The declared label in lower case, or None.
        is_json: True for ``*/json`` and ``*/*+json``.
        is_text: True if the payload may be a string in JSON: ``text/*``, ``*/xml`` or ``*/*+xml``.
    """

    essence: str
    charset: str | None
    is_json: bool
    is_text: bool

    @property
    def codec(self) -> str | None:
        """Return Python's codec of the charset. If no charset is declared, return UTF-8. Return None if the
        charset is not supported."""
        return _CHARSETS.get(self.charset or "utf-8")

    def decode(self, data: bytes) -> str:
        """Return ``data`` as text. Raises UnicodeError, also for a charset that is not supported."""
        return data.decode(self._known_codec())

    def encode(self, text: str) -> bytes:
        """Return ``text`` as bytes in the charset. Raises UnicodeError, also for a charset that is not supported."""
        return text.encode(self._known_codec())

    def _known_codec(self) -> str:
        if self.codec is None:
            raise UnicodeError(f"unknown charset {self.charset}")
        return self.codec


def _parse(text: str) -> MediaType | None:
    """Return the parsed media type (RFC 2046), or None if the text is not a media type. Any case and unusual
    spaces are accepted.

    A text that parses is printable ASCII.
    """
    match = _MEDIA_TYPE.fullmatch(text)
    if match is None:
        return None
    kind, subtype, parameters = match.group(1, 2, 3)
    essence = f"{kind}/{subtype}".lower()
    return MediaType(
        essence,
        _charset(parameters),
        is_json=essence.endswith(("/json", "+json")),
        is_text=essence.startswith("text/") or essence.endswith(("/xml", "+xml")),
    )


parse = Memo(_parse).__getitem__
"""A cached function that returns the parsed media type of a text, or None if the text is not a media type."""


def _charset(parameters: str) -> str | None:
    for name, value in _PARAMETERS.findall(parameters):
        if name.lower() == "charset":
            unquoted: str = value.strip('"')
            return unquoted.lower()
    return None


def declares_json(datacontenttype: str | None) -> bool:
    """Return True if the content type is JSON, or is not declared. The rule does not apply to data in
    ``data_base64``."""
    if datacontenttype is None:
        return True
    media_type = parse(datacontenttype)
    return media_type is not None and media_type.is_json

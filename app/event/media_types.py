"""What a content type says: is the payload JSON, is it text, in which charset (core 1.1, J6, J7)."""

from __future__ import annotations

import re

import msgspec

from app.event.memo import Memo

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z\-]++"  # noqa: S105 - RFC 9110 5.6.2
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*+"'
_PARAMETER = rf"({_TOKEN}) *+= *+({_TOKEN}|{_QUOTED})"
_MEDIA_TYPE = re.compile(rf" *+({_TOKEN})/({_TOKEN}) *+((?:; *+(?:{_PARAMETER} *+)?+)*+)")
_PARAMETERS = re.compile(_PARAMETER)

# Labels of the charsets we decode, to Python's codecs. A table of our own, because Python's registry
# also holds codecs that are no charsets, some of them slow, and remembers every miss.
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
    """A parsed media type. ``essence`` is ``type/subtype`` in lower case, without parameters.

    ``charset``  the label as declared, lower-cased; None when none is.
    ``is_json``  J6: ``*/json`` or ``*/*+json``.
    ``is_text``  its payload may be a string in JSON: ``text/*``, ``*/xml``, ``*/*+xml``.
    """

    essence: str
    charset: str | None
    is_json: bool
    is_text: bool

    @property
    def codec(self) -> str | None:
        """Python's codec for the charset, UTF-8 when none is declared; None when we know it not."""
        return _CHARSETS.get(self.charset or "utf-8")

    def decode(self, data: bytes) -> str:
        """``data`` as text in the charset. Raises UnicodeError, also for a charset unknown to us."""
        return data.decode(self._known_codec())

    def encode(self, text: str) -> bytes:
        """``text`` as bytes in the charset. Raises UnicodeError, also for a charset unknown to us."""
        return text.encode(self._known_codec())

    def _known_codec(self) -> str:
        if self.codec is None:
            raise UnicodeError(f"unknown charset {self.charset}")
        return self.codec


def _parse(text: str) -> MediaType | None:
    """The media type in ``text``; None when it is none (RFC 2046, any case, odd spaces).

    What parses is printable ASCII throughout.
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


def _charset(parameters: str) -> str | None:
    for name, value in _PARAMETERS.findall(parameters):
        if name.lower() == "charset":
            unquoted: str = value.strip('"')
            return unquoted.lower()
    return None


def declares_json(datacontenttype: str | None) -> bool:
    """J6: the type says JSON, or none is declared. Says nothing about ``data_base64`` (J10)."""
    if datacontenttype is None:
        return True
    media_type = parse(datacontenttype)
    return media_type is not None and media_type.is_json

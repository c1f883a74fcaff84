"""The hot path of reading: a compact document of text attributes with JSON data, or none, at its end.

That is what most senders write. It is an optimisation only: where it does not fit, the ordinary
reader decides, and the two never disagree (a property test holds them to it).
"""

from __future__ import annotations

import msgspec

from app.event.media_types import declares_json
from app.event.validate import faults_of
from app.event.value import CloudEvent, DataForm
from app.formats.json_members import MEMBERS

_TEXT_MEMBERS = msgspec.json.Decoder(dict[str, str])
_VALUE = msgspec.json.Decoder(msgspec.Raw)
_DATA = b',"data":'  # with a quote on either side it cannot stand inside a string
_PER_MEMBER = 6  # four quotes, a colon, and a comma or the closing brace


def read_compact(text: bytes) -> CloudEvent | None:
    """The event; None when the document is of another shape, or has any fault."""
    head, found, tail = text.partition(_DATA)
    if not found and b'"data' in text:  # elsewhere, or with white space
        return None
    try:
        attributes = _TEXT_MEMBERS.decode(head + b"}" if found else head)
        data = bytes(_VALUE.decode(tail[:-1])) if found else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if found and tail[-1:] != b"}":
        return None
    if not _accounts_for(attributes, len(head) + 1 if found else len(head)) or b"\x7f" in head:
        return None
    if len(attributes) >= MEMBERS or faults_of(attributes, str, printable=True):
        return None
    if data is None:
        return CloudEvent(attributes)
    if not declares_json(attributes.get("datacontenttype")):
        return None
    return CloudEvent(attributes, data, DataForm.JSON)


def _accounts_for(attributes: dict[str, str], length: int) -> bool:
    """Whether these members and their punctuation are all there is. A repeated name, white space, an
    escape or a character beyond ASCII would each make the document longer, so that equality also
    proves every value printable, but for U+007F.
    """
    texts = len("".join(attributes)) + len("".join(attributes.values()))
    return texts + _PER_MEMBER * len(attributes) + 1 == length

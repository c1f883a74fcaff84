"""The event, frozen: a 1.0 view of its attributes and, beside it, the form it arrived in.

Nothing is invented, nothing is normalised: ``time`` and every other string keep the text they came
with (CloudEvents core 1.3; trap 14 of the specification family). Data is raw bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class AttributeType(enum.Enum):
    """The types of core 1.3 that a wire form can tell apart; everything else is text.

    ``MAP`` is of versions before 1.0 and stands in ``arrived`` only: compact JSON text.
    """

    STRING = "String"
    INTEGER = "Integer"
    BOOLEAN = "Boolean"
    MAP = "Map"


class DataForm(enum.Enum):
    """What is known of the data bytes, so that a change of mode need not guess.

    ``OPAQUE``  bytes as declared by datacontenttype (binary mode, ``data_base64``).
    ``JSON``    exactly one JSON value, the raw text of a ``data`` member (``1.10`` stays ``1.10``).
    ``TEXT``    a ``data`` member that was a string under a content type that is not JSON (J7).
    """

    OPAQUE = "opaque"
    JSON = "json"
    TEXT = "text"


class ArrivedAttribute(msgspec.Struct, frozen=True):
    """How one attribute arrived, where that differs from its 1.0 name, type and canonical text.

    ``name``  as its version spells it; an entry of 0.1's ``extensions`` is ``extensions/NAME``.
    ``text``  as a header of its version carries it: in 0.1 and 0.2 that is JSON, strings in quotes.
    """

    name: str
    type: AttributeType
    text: str


NO_TYPES: Mapping[str, AttributeType] = MappingProxyType({})
NO_ARRIVALS: Mapping[str, ArrivedAttribute] = MappingProxyType({})


class CloudEvent(msgspec.Struct, frozen=True, gc=False):  # it can be in no cycle
    """A valid CloudEvent.

    ``attributes``  1.0 name to canonical text (core 1.3), in order of arrival, ``specversion``
                    included, ``datacontenttype`` included when declared. Treat as read-only.
    ``data``        the payload bytes; None when there is none, which is not ``b""`` and not the
                    JSON ``null`` (``b"null"`` with form JSON).
    ``data_form``   what is known of those bytes.
    ``types``       types other than String, by 1.0 name, where the wire form told them.
    ``version``     the version it arrived with, a name in ``versions.VERSIONS``; forwarding returns
                    the event in that version. The 1.0 view itself always says ``specversion`` 1.0.
    ``arrived``     attributes whose arrived name, type or text differ from the 1.0 view.
    """

    attributes: Mapping[str, str]
    data: bytes | None = None
    data_form: DataForm = DataForm.OPAQUE
    types: Mapping[str, AttributeType] = NO_TYPES
    version: str = "1.0"
    arrived: Mapping[str, ArrivedAttribute] = NO_ARRIVALS

    @property
    def id(self) -> str:
        return self.attributes["id"]

    @property
    def source(self) -> str:
        return self.attributes["source"]

    @property
    def type(self) -> str:
        return self.attributes["type"]

    @property
    def datacontenttype(self) -> str | None:
        return self.attributes.get("datacontenttype")

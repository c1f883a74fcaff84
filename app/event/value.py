"""The immutable event: a 1.0 view of its attributes, and the form in which it arrived.

No value is invented or normalised: ``time`` and every other string keep the text that arrived (CloudEvents
core 1.3). Data is raw bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class AttributeType(enum.Enum):
    """The attribute types of CloudEvents core 1.3 that some wire format distinguishes. Every other type is
    text on the wire.

    ``MAP`` is a type of the versions before 1.0. It occurs only in ``CloudEvent.arrived``, as compact JSON
    text.
    """

    STRING = "String"
    INTEGER = "Integer"
    BOOLEAN = "Boolean"
    MAP = "Map"


class DataForm(enum.Enum):
    """The form of the data bytes. It is stored so that a change of the content mode need not guess the form.

    Attributes:
        OPAQUE: Bytes as ``datacontenttype`` declares them (binary mode, ``data_base64``).
        JSON: Exactly one JSON value, the raw text of a ``data`` member (``1.10`` stays ``1.10``).
        TEXT: A ``data`` member that was a string under a content type that is not JSON.
    """

    OPAQUE = "opaque"
    JSON = "json"
    TEXT = "text"


class ArrivedAttribute(msgspec.Struct, frozen=True):
    """The form in which one attribute arrived, if it differs from the 1.0 view.

    Attributes:
        name: The name as its version spells it. An entry of ``extensions`` in 0.1 is ``extensions/NAME``.
        type: The type.
        text: The text of a header with this attribute. In 0.1 and 0.2 the text is JSON, with strings in
            quotes.
    """

    name: str
    type: AttributeType
    text: str


NO_TYPES: Mapping[str, AttributeType] = MappingProxyType({})
NO_ARRIVALS: Mapping[str, ArrivedAttribute] = MappingProxyType({})


class CloudEvent(msgspec.Struct, frozen=True, gc=False):  # an instance can be in no reference cycle
    """A valid CloudEvent.

    Attributes:
        attributes: Canonical texts by 1.0 name (core 1.3), in order of arrival. ``specversion`` is included,
            and ``datacontenttype`` if declared. Treat as read-only.
        data: The payload bytes. None if there is none, which differs from ``b""`` and from JSON null
            (``b"null"``).
        data_form: The known form of these bytes.
        types: Types other than String, by 1.0 name, if the wire format distinguishes them.
        version: The version in which the event arrived, a name in ``versions.VERSIONS``. Forwarding keeps it.
            ``specversion`` in the 1.0 view is always 1.0.
        arrived: Attributes whose name, type or text on arrival differs from the 1.0 view.
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

"""Key mappers, which compute the record key of an event (Kafka binding 3.1).

A mapper reads the event and returns bytes, or None. It never changes the event, and the key never becomes an
attribute. A new built-in mapper is an entry in ``MAPPERS``. An operator's own mapper is a plain callable with
a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import repeat
from types import MappingProxyType

import msgspec

from app.bindings.run import EventColumns
from app.errors import Fault, KeyMapperFailed, SenderError, SetupError
from app.event.json_pointer import compile_lookup
from app.event.json_text import is_utf8
from app.event.value import CloudEvent
from app.model.route import KeyPolicy
from app.routing.templates import compile_template

_TEXT = msgspec.json.Decoder(str)


def compile_pointer(pointer: str) -> Callable[[CloudEvent], bytes | None]:
    """Return the function that makes a record key of the value at a JSON Pointer in the data.

    A string gives its text; a number or a boolean its characters as written (``1.10`` stays ``1.10``). A
    string with an unpaired surrogate gives its bytes as written, quotes included, so that equal strings stay
    in order.

    An object, an array, null, no value, and data that is not JSON give None.

    Args:
        pointer: Empty for all of the data, or a path that begins with a slash.
    """
    lookup = compile_lookup(pointer)

    def find(event: CloudEvent) -> bytes | None:
        found = lookup(event)
        return None if found is None else _key(found)

    return find


def _key(value: bytes) -> bytes | None:
    if not value.startswith(b'"'):
        return None if value[:1] in {b"{", b"[", b"n"} else value
    try:
        return _TEXT.decode(value).encode()
    except msgspec.DecodeError:
        return value if is_utf8(value) else None
    except UnicodeError:
        return None


Keys = Callable[[EventColumns, bytes | None], Iterable[bytes | None] | None]
"""A function that computes the keys of a whole batch from its columns. It returns None if each event needs its
mapper."""


def compile_keys(policy: KeyPolicy) -> Keys:
    """Return the function that computes the keys of a batch. The function returns None if the keys follow neither
    from a column nor from the request."""
    keys = _alike(policy)
    if keys is None:
        return lambda _run, _request_key: None
    if policy.missing == "reject":
        return keys
    falls_back = policy.missing == "from_request"

    def or_other(run: EventColumns, request_key: bytes | None) -> Iterable[bytes | None] | None:
        other = request_key if falls_back else None
        found = keys(run, request_key)
        if found is None:
            return repeat(other)
        return found if other is None else [other if key is None else key for key in found]

    return or_other


def _alike(policy: KeyPolicy) -> Keys | None:
    """Return the function that computes the keys of a batch by column, or None if the mapper must see each
    event.

    The function returns None if no event of the batch has a key.
    """
    name = _attribute_of(policy)
    match policy.mapper:
        case "from_request":
            return lambda _run, key: None if key is None else repeat(key)
        case "none":
            return lambda _run, _request_key: None
        case _:
            return None if name is None else lambda run, _request_key: run.column(name)


def _attribute_of(policy: KeyPolicy) -> str | None:
    """Return the attribute whose value is the key, or None if no single attribute is."""
    return "partitionkey" if policy.mapper == "partitionkey" else policy.attribute


def key_place(policy: KeyPolicy, names: Sequence[str]) -> int | None:
    """Return the place of the attribute that is the key of events with these attribute names.

    Return -1 if the events have no key, and None if the mapper must see each event. The events have no
    ``datacontenttype`` among the names, no empty value, and no key of the request.
    """
    name = _attribute_of(policy)
    if name is None and policy.mapper not in {"from_request", "none"}:
        return None
    if name in names:
        return names.index(name)
    return None if policy.missing == "reject" or name == "datacontenttype" else -1


KeyMapper = Callable[[CloudEvent, bytes | None], bytes | None]
"""A function from an event and the request's key to the record key."""

PlainMapper = Callable[[Mapping[str, str], bytes | None, bytes | None], bytes | str | None]
"""An operator's own mapper, from attributes, data and the request's key to the record key."""

NO_MAPPERS: Mapping[str, PlainMapper] = MappingProxyType({})

DIGEST_HEX = 32  # 128 bits distinguish keys at half the size


class MissingKey(SenderError):
    """The error for an event without a key on a route that demands a key (400)."""

    def __init__(self, where: str) -> None:
        detail = f"This route needs a record key, but {where} gives none."
        super().__init__(
            "No record key", code="missing-key", faults=[Fault("missing-key", detail, at=where)]
        )


def compile_key(
    policy: KeyPolicy, *, setting: str = "", own: Mapping[str, PlainMapper] = NO_MAPPERS
) -> KeyMapper:
    """Return the key mapper of a policy.

    Args:
        policy: The setting ``key`` of a route.
        setting: The name of the setting, for errors.
        own: The operator's key mappers, by name.

    Raises:
        SetupError: The template is malformed, or no mapper has this name.
    """
    built_in = MAPPERS.get(policy.mapper)
    mapper = built_in(policy, setting) if built_in else _own(policy.mapper, own, setting)
    if policy.missing == "none":
        return mapper
    return _or_request(mapper) if policy.missing == "from_request" else _required(mapper, policy)


def _or_request(mapper: KeyMapper) -> KeyMapper:
    def either(event: CloudEvent, request_key: bytes | None) -> bytes | None:
        key = mapper(event, request_key)
        return request_key if key is None else key

    return either


def _required(mapper: KeyMapper, policy: KeyPolicy) -> KeyMapper:
    where = _where(policy)

    def required(event: CloudEvent, request_key: bytes | None) -> bytes | None:
        key = mapper(event, request_key)
        if key is None:
            raise MissingKey(where)
        return key

    return required


def digest(values: list[str | None]) -> bytes:
    """Return the first 32 hexadecimal digits of SHA-256 over the values, so that any language can compute the
    same key.

    Each value is written as its number of UTF-8 bytes, a colon, the bytes and a comma. An absent value is
    ``-,``. So ``a, bc`` differs from ``ab, c``, and absent from empty.
    """
    written = b"".join([_netstring(value) for value in values])
    return sha256(written, usedforsecurity=False).hexdigest()[:DIGEST_HEX].encode()


def _netstring(value: str | None) -> bytes:
    if value is None:
        return b"-,"
    text = value.encode()
    return b"%d:%b," % (len(text), text)


def _from_request(_policy: KeyPolicy, _setting: str) -> KeyMapper:
    return lambda _event, request_key: request_key


def _partitionkey(_policy: KeyPolicy, _setting: str) -> KeyMapper:
    """Return the mapper of the attribute ``partitionkey``. An empty value gives no key: it would put unordered
    events under one key."""

    def mapper(event: CloudEvent, _request_key: bytes | None) -> bytes | None:
        text = event.attributes.get("partitionkey")
        return text.encode() if text else None

    return mapper


def _attribute(policy: KeyPolicy, _setting: str) -> KeyMapper:
    return _of_attribute(policy.attribute or "")


def _of_attribute(name: str) -> KeyMapper:
    def mapper(event: CloudEvent, _request_key: bytes | None) -> bytes | None:
        text = event.attributes.get(name)
        return None if text is None else text.encode()

    return mapper


def _template(policy: KeyPolicy, setting: str) -> KeyMapper:
    """Return the mapper of a template. A missing attribute gives no key, because a partial key would join
    unrelated events.
    """
    template = compile_template(policy.template or "", setting=f"{setting}.template".lstrip("."))

    def mapper(event: CloudEvent, _request_key: bytes | None) -> bytes | None:
        try:
            return template(event.attributes).encode()
        except KeyError:
            return None

    return mapper


def _pointer(policy: KeyPolicy, _setting: str) -> KeyMapper:
    find = compile_pointer(policy.pointer or "")
    return lambda event, _request_key: find(event)


def _hash(policy: KeyPolicy, _setting: str) -> KeyMapper:
    """Return the mapper of a digest. It gives no key only if all attributes are missing."""
    names = policy.attributes or ()

    def mapper(event: CloudEvent, _request_key: bytes | None) -> bytes | None:
        values = [event.attributes.get(name) for name in names]
        return digest(values) if any(value is not None for value in values) else None

    return mapper


def _none(_policy: KeyPolicy, _setting: str) -> KeyMapper:
    return lambda _event, _request_key: None


def _own(name: str, own: Mapping[str, PlainMapper], setting: str) -> KeyMapper:
    """Return the wrapper of an operator's own mapper, which cannot change the attributes.

    Any exception of the mapper becomes KeyMapperFailed, distinct from faults of senders and of Skybridge.
    """
    plain = own.get(name)
    if plain is None:
        at = f"{setting}.mapper".lstrip(".")
        cure = "name a built-in one, or install the package that registers it"
        raise SetupError(f"there is no key mapper {name!r}", setting=at, cure=cure)

    def mapper(event: CloudEvent, request_key: bytes | None) -> bytes | None:
        try:
            key = plain(MappingProxyType(event.attributes), event.data, request_key)
            found = key.encode() if isinstance(key, str) else key
        except Exception as error:
            raise KeyMapperFailed(_failed(name, f"raised {type(error).__name__}")) from error
        if found is None or isinstance(found, bytes):
            return found
        raise KeyMapperFailed(_failed(name, f"returned a value of type {type(found).__name__}"))

    return mapper


def _failed(name: str, how: str) -> str:
    return f"The key mapper {name!r} of this gateway {how}"


MAPPERS: Mapping[str, Callable[[KeyPolicy, str], KeyMapper]] = {
    "from_request": _from_request,
    "partitionkey": _partitionkey,
    "attribute": _attribute,
    "template": _template,
    "pointer": _pointer,
    "hash": _hash,
    "none": _none,
}


def _where(policy: KeyPolicy) -> str:
    """Return what a sender must give so that the event has a key."""
    return {
        "from_request": "header skybridge-key",
        "attribute": policy.attribute or "",
        "template": f"template {policy.template}",
        "pointer": f"pointer {policy.pointer}",
        "hash": ", ".join(policy.attributes or ()),
        "partitionkey": "partitionkey",
    }.get(policy.mapper, f"mapper {policy.mapper}")

"""Make an example request for the start message of the service: a curl command with an event that a
route accepts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import msgspec

from app.access.rights import Rights, compile_patterns
from app.api.explain.journeys import explain_as
from app.bindings import http
from app.cli.event_input import Recipe, request
from app.config.derived.kinds import guide_of
from app.config.model.config import Config
from app.errors import SkybridgeError
from app.event.json_pointer import steps_of
from app.filters.model import Filter
from app.model.producer import Producer
from app.model.route import Exchange, Route
from app.routing.journey import EventExplainer
from app.routing.templates import demanded

_USUAL = {"id": "1", "source": "/try", "type": "com.example.hello"}
_KEY = "try"
VARIABLE = "SKYBRIDGE_EVENTS_KEY"  # skybridge send reads the key from it too


def example_command(config: Config, url: str) -> str:
    """Return a curl command with an event that the gateway answers with 202. Return empty text if
    the function finds no such event.

    An event that a route accepts by its filters is preferred. Otherwise the command posts to a
    route by name.
    """
    try:
        guide = guide_of(config)
        for producer in _senders(config):
            for path, route in product(("", "name"), config.routes):
                named = route.name if path else None
                message = _message(route, producer)
                if _is_accepted(guide, message, named, producer):
                    place = f"{url}/events" + (f"/{named}" if named else "")
                    return _curl(place, message, _credential(producer))
    except SkybridgeError:  # a custom key mapper failed: real requests report that
        pass
    return ""


def _senders(config: Config) -> Sequence[Producer | None]:
    """Return the producers that may send the example; None means any client, if access is open."""
    if config.server.events.access != "producers":
        return [None]
    return [each for each in config.producers if each.keys or each.jwt is not None]


def _credential(producer: Producer | None) -> str:
    """Return the header with the credential, for the shell: from its file, or from a variable that the
    reader sets. The credential itself is never printed.
    """
    if producer is None:
        return ""
    path = producer.keys[0].path if producer.keys else ""
    text = (
        f"$(cat {shlex.quote(path)})"
        if path
        else f"${{{VARIABLE}:?set it to a key of {producer.name}}}"
    )
    name = producer.header or "authorization"
    return f'-H "{name}: {text if producer.header else f"Bearer {text}"}" '


def _message(route: Route, producer: Producer | None) -> http.HttpMessage:
    """Return a request with the attributes, key and data that the route needs, as far as its
    settings show them.
    """
    attributes = {**dict.fromkeys(_needed(route), _KEY), **_USUAL}
    attributes |= _wanted(route.filters)
    if producer is not None:
        may = producer.may
        for name, patterns in (("source", may.sources), ("type", may.types)):
            if not compile_patterns(patterns)(attributes[name]):
                attributes[name] = patterns[0].replace("*", _KEY)
    attributes.pop("specversion", None)
    names = {name: attributes.pop(name) for name in ("id", "source", "type")}
    recipe = Recipe(**names, extensions=attributes, data=_data(route.key.pointer))
    message = request(recipe)
    if route.key.mapper == "from_request" and route.key.missing == "reject":
        return message.having([("skybridge-key", _KEY)])
    return message


def _needed(route: Route) -> Iterator[str]:
    """Yield the names of the attributes that the key and the topic names of the route use."""
    key = route.key
    if key.mapper == "partitionkey":
        yield "partitionkey"
    yield from filter(None, (key.attribute, *(key.attributes or ())))
    yield from demanded(key.template or "")
    for target in route.to:
        yield from demanded("" if isinstance(target, Exchange) else target.topic)


def _wanted(filters: Sequence[Filter]) -> Mapping[str, str]:
    """Return attributes that pass the filters. The first member of ``any`` is used; ``sql`` and
    ``not`` are ignored.
    """
    found: dict[str, str] = {}
    for one in filters:
        found |= {name: f"{text}hello" for name, text in (one.prefix or {}).items()}
        found |= {name: f"{found.get(name, '')}{text}" for name, text in (one.suffix or {}).items()}
        found |= one.exact or {}
        found |= {**_wanted(one.all or ()), **_wanted((one.any or ())[:1])}
    return found


def _data(pointer: str | None) -> bytes:
    """Return JSON data that has text at ``pointer``, the JSON Pointer of the record key. Return
    other data for None.
    """
    if not pointer:
        return b'{"hello": "world"}'
    value: object = _KEY
    for step in reversed(steps_of(pointer)):
        value = {step: value}
    return msgspec.json.encode(value)


def _is_accepted(
    guide: EventExplainer, message: http.HttpMessage, route: str | None, producer: Producer | None
) -> bool:
    headers = [(name.encode(), text.encode()) for name, text in message.headers]
    key = dict(message.headers).get("skybridge-key")
    (decoded,) = http.decode(headers, message.body)
    rights = None if producer is None else Rights(producer.name, producer.may)
    journey = explain_as(guide, decoded, None if key is None else key.encode(), route, rights)
    return journey.refused is None


def _curl(url: str, message: http.HttpMessage, credential: str) -> str:
    headers = " ".join(f"-H {shlex.quote(f'{name}: {text}')}" for name, text in message.headers)
    return (
        f"curl -i {shlex.quote(url)} {credential}{headers} -d {shlex.quote(message.body.decode())}"
    )

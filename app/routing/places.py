"""What a log is told to publish to: the text of a target, made from an event's attributes.

Every log takes plain topic names of Kafka's grammar. Beside them

- RabbitMQ knows ``queue:NAME``, a queue that others made, and ``exchange:NAME:ROUTING KEY``, which is
  what a target ``{exchange, routing_key}`` becomes;
- Pulsar knows ``tenant/namespace/topic``, also with ``persistent://`` before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from app.errors import SetupError
from app.model.route import Exchange, Target
from app.routing.templates import (
    BadTopic,
    Template,
    compile_template,
    compile_topic,
    filled,
    is_topic,
    placeholders,
)

QUEUE, EXCHANGE = "queue:", "exchange:"
_SHORT_STRING = 255  # bytes of a name in AMQP
_PULSAR_NAMESPACE = re.compile(r"(persistent://)?[\w.=:-]+/[\w.=:-]+/")


def compile_place(target: Target | Exchange, kind: str, *, setting: str = "") -> Template:
    """SetupError for what can never be a place on a broker of that kind, afterwards BadTopic."""
    if isinstance(target, Exchange):
        return _compile_exchange(target, setting)
    return _compile_topic(target.topic, kind, f"{setting}.topic")


def is_place(name: str, kind: str) -> bool:
    """Whether a broker of that kind can have a topic of that fixed name."""
    if kind == "rabbitmq" and name.startswith(QUEUE):
        return 0 < len(name.removeprefix(QUEUE).encode()) <= _SHORT_STRING
    return is_topic(name[_namespace_of(name, kind) :])


def is_fixed(target: Target | Exchange) -> bool:
    """Whether it is the same place for every event."""
    return not named_in(target)


def named_in(target: Target | Exchange) -> tuple[str, ...]:
    """The attributes that its place is made from."""
    texts = [target.topic] if isinstance(target, Target) else [target.exchange, target.routing_key]
    return tuple([name for text in texts for name in placeholders(text)])


def fixed_place(target: Target | Exchange) -> str:
    """The place of a target that is fixed, as the log is told."""
    if isinstance(target, Target):
        return target.topic
    names = compile_template(target.exchange)({}), compile_template(target.routing_key)({})
    return f"{EXCHANGE}{names[0]}:{names[1]}"


def may_be_among(targets: Iterable[Target | Exchange], broker: str, place: str) -> bool:
    """Whether one of them is that place, or may be: a template may mean any place of its broker, and an exchange
    may lead to any."""
    return any(
        isinstance(each, Exchange) or not is_fixed(each) or fixed_place(each) == place
        for each in targets
        if each.broker == broker
    )


def _compile_topic(text: str, kind: str, setting: str) -> Template:
    if kind == "rabbitmq" and text.startswith(QUEUE):
        if not is_place(text, kind):
            cure = f"write queue:NAME, the name at most {_SHORT_STRING} bytes"
            raise SetupError("names no queue", setting=setting, cure=cure)
        return lambda _attributes: text
    end = _namespace_of(text, kind)
    namespace, name = text[:end], compile_topic(text[end:], setting=setting)
    if not namespace:
        return name
    return lambda attributes: namespace + name(attributes)


def _namespace_of(text: str, kind: str) -> int:
    """How many of the first characters name tenant and namespace."""
    found = _PULSAR_NAMESPACE.match(text) if kind == "pulsar" else None
    return found.end() if found else 0


def _compile_exchange(target: Exchange, setting: str) -> Template:
    if ":" in target.exchange:
        raise SetupError(
            "has a colon in its name", setting=f"{setting}.exchange", cure="rename the exchange"
        )
    exchange = _compile_name(target.exchange, f"{setting}.exchange")
    routing_key = _compile_name(target.routing_key, f"{setting}.routing_key", anything=True)
    return lambda attributes: f"{EXCHANGE}{exchange(attributes)}:{routing_key(attributes)}"


def _compile_name(text: str, setting: str, *, anything: bool = False) -> Template:
    """A template whose result is a name in AMQP. What attributes make of an exchange must be a plain
    name, so that a sender reaches no other than those meant; a routing key may be ``anything``."""
    template = compile_template(text, setting=setting)
    names = placeholders(text)
    if not names:
        return _constant(template({}), setting)

    def name(attributes: Mapping[str, str]) -> str:
        made = filled(template, attributes)
        if not anything and not is_topic(made):
            raise BadTopic("It gives no valid exchange name: only a-z A-Z 0-9 . _ -.", names[0])
        if len(made.encode()) > _SHORT_STRING:
            raise BadTopic(f"It makes a name of more than {_SHORT_STRING} bytes.", names[0])
        return made

    return name


def _constant(name: str, setting: str) -> Template:
    if len(name.encode()) > _SHORT_STRING:
        cure = f"shorten it to {_SHORT_STRING} bytes"
        raise SetupError("is too long for a name in AMQP", setting=setting, cure=cure)
    return lambda _attributes: name

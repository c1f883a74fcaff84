"""The text that names a target to its log, made from the attributes of an event.

Every log accepts topic names of Kafka's grammar. Two logs accept further forms.

- RabbitMQ accepts ``queue:NAME``, an existing queue, and ``exchange:NAME:ROUTING KEY``, which a target with
  ``exchange`` becomes.
- Pulsar accepts ``tenant/namespace/topic``, also with ``persistent://`` before it.
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
    """Return the template of a target's place on a broker of this kind.

    Raises:
        SetupError: The text can never be a place on such a broker. At run time the template raises BadTopic.
    """
    if isinstance(target, Exchange):
        return _compile_exchange(target, setting)
    return _compile_topic(target.topic, kind, f"{setting}.topic")


def is_place(name: str, kind: str) -> bool:
    """Return True if a broker of this kind can have a topic of this fixed name."""
    if kind == "rabbitmq" and name.startswith(QUEUE):
        return 0 < len(name.removeprefix(QUEUE).encode()) <= _SHORT_STRING
    return is_topic(name[_namespace_of(name, kind) :])


def is_fixed(target: Target | Exchange) -> bool:
    """Return True if the target is the same place for every event."""
    return not named_in(target)


def named_in(target: Target | Exchange) -> tuple[str, ...]:
    """Return the attributes from which a target's place is made."""
    texts = [target.topic] if isinstance(target, Target) else [target.exchange, target.routing_key]
    return tuple([name for text in texts for name in placeholders(text)])


def fixed_place(target: Target | Exchange) -> str:
    """Return the place of a target without attributes, in the form that its log accepts."""
    if isinstance(target, Target):
        return target.topic
    names = compile_template(target.exchange)({}), compile_template(target.routing_key)({})
    return f"{EXCHANGE}{names[0]}:{names[1]}"


def may_be_among(targets: Iterable[Target | Exchange], broker: str, place: str) -> bool:
    """Return True if one of the targets is this place, or may be this place for some events.

    A template may name any place of its broker, and an exchange may lead to any.
    """
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
    """Return the length of the prefix with tenant and namespace."""
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
    """Return a template whose result is a name in AMQP.

    An exchange name made from attributes must be plain, so that a sender cannot reach other exchanges.

    Args:
        text: The template.
        setting: The name of the setting, for errors.
        anything: True for a routing key, which may have any characters.
    """
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

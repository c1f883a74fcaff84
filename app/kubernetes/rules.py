"""The rules of a subscription that the API server checks itself, as CEL expressions.

The names of settings and their defaults come from the model, so that a rule cannot name a setting that is gone.
Rules about the installation, such as the brokers that exist, are checked by the admin API and reported as a condition.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic_core import PydanticUndefined

from app.model.outlet_rules import OF_CLOUDEVENTS, OFF
from app.model.pull import NOT_FOR_PULL
from app.model.subscription import OF_WEBHOOKS, Subscription

Rule = dict[str, str]

LONGEST_NAME = 63
"""Characters of the name of an object. With the namespace, the id then fits the model."""
WEBHOOK = "(has(self.sink.url) || has(self.sink.service) || has(self.sink.secretRef))"
_FORMS = ("url", "service", "secretRef", "broker", "pull")
_NEEDS_TOPIC = "on_foreign: forward needs a topic as sink, because a webhook gets only events"


def of_object() -> list[Rule]:
    """Return the rules of the whole object."""
    return [
        _rule(
            f"size(self.metadata.name) <= {LONGEST_NAME}",
            f"the name of the object has more than {LONGEST_NAME} characters, which the id of its subscription cannot have",
        )
    ]


def of_sink() -> list[Rule]:
    """Return the rules of ``sink``: exactly one form, and a URL without a password."""
    count = " + ".join(f"(has(self.{each}) ? 1 : 0)" for each in _FORMS)
    place = "has(self.topic) || has(self.exchange)"
    return [
        _rule(
            f"{count} == 1",
            "sink has exactly one of url, service, secretRef, broker and pull",
        ),
        _rule(
            f"has(self.broker) ? ({place}) && !(has(self.topic) && has(self.exchange)) : !({place})",
            "sink.broker needs either topic or exchange, and only broker has them",
        ),
        _rule(
            "!has(self.routing_key) || has(self.exchange)",
            "sink.routing_key is only for an exchange",
        ),
        _rule(
            "!has(self.url) || !self.url.matches('^https?://[^/?#]*@')",
            "sink.url has a user name or password, which would appear in logs; set auth",
        ),
    ]


_NOT_IN_OBJECTS = frozenset({"tls"})


def of_spec() -> list[Rule]:
    """Return the rules between the settings of a subscription."""
    return [
        *(
            _rule(f"{WEBHOOK} || {_unset(name)}", f"{name} is only for webhooks")
            for name in OF_WEBHOOKS
            if name not in _NOT_IN_OBJECTS
        ),
        *(
            _rule(
                f"!has(self.sink.pull) || {_unset(name)}",
                f"{name} has no effect, because a pull subscription sends nothing",
            )
            for name in NOT_FOR_PULL
            if name not in OF_WEBHOOKS
        ),
        *_of_settings(),
    ]


def _of_settings() -> Iterator[Rule]:
    yield _rule(f"{_unset('on_foreign', 'forward')} || has(self.sink.broker)", _NEEDS_TOPIC)
    yield _rule(
        "!has(self.batch) || !has(self.format) || self.format != 'avro'",
        "the format avro has no batches; set format: json or protobuf, or remove batch",
    )
    yield _rule(
        "!has(self.sharing) || self.sharing != 'topic' || size(self.source.topics) == 1",
        "sharing: topic shares the membership of one topic, but source.topics has several",
    )
    yield _rule(
        "!has(self.dead_letter) || self.dead_letter.broker != self.source.broker"
        " || !(self.dead_letter.topic in self.source.topics)",
        "the topic of dead_letter is also a source, so dead letters would loop forever",
    )
    yield _rule(
        "!has(self.dead_letter) || !self.dead_letter.topic.contains('{')",
        "dead_letter.topic is a fixed name, without placeholders in braces",
    )
    for name in OF_CLOUDEVENTS:
        is_off = f" || self.{name} == {_literal(OFF[name])}" if name in OFF else ""
        yield _rule(
            f"!has(self.request) || !has(self.{name}){is_off}",
            f"{name} is only for CloudEvents, but request sends none",
        )


def _unset(name: str, value: object = None) -> str:
    """Return the expression that a setting is absent or has its default, or that it has not ``value``."""
    if value is not None:
        return f"(!has(self.{name}) || self.{name} != {_literal(value)})"
    default = Subscription.model_fields[name].default
    if default is PydanticUndefined or not isinstance(default, str | int | bool):
        return f"!has(self.{name})"
    if name in _OPEN_NUMBERS:  # a text or a number, whose spelling is free
        return f"!has(self.{name})"
    return f"(!has(self.{name}) || self.{name} == {_literal(default)})"


_OPEN_NUMBERS = frozenset({"timeout", "response_limit", "max_age"})


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def _rule(rule: str, message: str) -> Rule:
    return {"rule": rule, "message": message}

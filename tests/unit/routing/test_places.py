"""Where events go on each kind of broker: names, queues, exchanges."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from app.errors import SetupError
from app.model.route import Exchange, Target
from app.routing.places import compile_place, is_fixed, is_place
from app.routing.templates import BadTopic

EVENT: Mapping[str, str] = {"type": "com.example.order", "source": "/a b", "subject": "x" * 300}


def topic(text: str) -> Target:
    return Target(broker="b", topic=text)


def exchange(name: str, routing_key: str = "") -> Exchange:
    return Exchange(broker="b", exchange=name, routing_key=routing_key)


@pytest.mark.parametrize(
    ("target", "kind", "expected"),
    [
        (topic("orders.{type}"), "kafka", "orders.com.example.order"),
        (topic("orders"), "rabbitmq", "orders"),
        (topic("queue:any thing"), "rabbitmq", "queue:any thing"),
        (topic("a/b/orders.{type}"), "pulsar", "a/b/orders.com.example.order"),
        (topic("persistent://a/b/orders"), "pulsar", "persistent://a/b/orders"),
        (exchange("orders", "{type}"), "rabbitmq", "exchange:orders:com.example.order"),
        (exchange("x.{type}", "k"), "rabbitmq", "exchange:x.com.example.order:k"),
        (exchange("", "jobs"), "rabbitmq", "exchange::jobs"),
        (exchange("fan-out"), "rabbitmq", "exchange:fan-out:"),
        (exchange("x", "{source}:1"), "rabbitmq", "exchange:x:/a b:1"),
    ],
)
def test_a_target_becomes_a_place(target: Target | Exchange, kind: str, expected: str) -> None:
    """From the attributes of the event, as the log is told."""
    assert compile_place(target, kind)(EVENT) == expected


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (topic("queue:x"), "kafka"),
        (topic("a/b/c"), "rabbitmq"),
        (topic("queue:"), "rabbitmq"),
        (topic("queue:" + "x" * 256), "rabbitmq"),
        (topic("exchange:x:y"), "rabbitmq"),
        (topic("a/b/"), "pulsar"),
        (exchange("a:b"), "rabbitmq"),
        (exchange("x" * 256), "rabbitmq"),
        (exchange("x", "{Type}"), "rabbitmq"),
    ],
)
def test_what_can_never_be_a_place_is_found_before_the_start(
    target: Target | Exchange, kind: str
) -> None:
    """With a setting that lint can point to."""
    with pytest.raises(SetupError) as refused:
        compile_place(target, kind, setting="to")
    assert refused.value.setting.startswith("to.")
    assert refused.value.cure


@pytest.mark.parametrize(
    "target",
    [
        exchange("{source}"),
        exchange("x", "{subject}"),
        exchange("x", "{nothing}"),
        topic("t.{source}"),
    ],
)
def test_an_event_whose_attributes_make_no_place_is_refused(target: Target | Exchange) -> None:
    """400, and no sender reaches an exchange by a name that nobody meant."""
    with pytest.raises(BadTopic):
        compile_place(target, "rabbitmq")(EVENT)


def test_templates_are_told_from_what_is_the_same_for_every_event() -> None:
    """Only the latter can be looked at before the first event."""
    assert is_fixed(topic("orders"))
    assert is_fixed(exchange("x", "y"))
    assert not is_fixed(topic("orders.{type}"))
    assert not is_fixed(exchange("x", "{type}"))
    assert not is_fixed(topic("orders.{region ?? eu}"))


def test_a_default_takes_the_place_of_a_missing_attribute_only() -> None:
    place = compile_place(exchange("of-{kind ?? any}", "{type ?? none}"), "rabbitmq")
    assert place({"kind": "a", "type": "b"}) == "exchange:of-a:b"
    assert place({}) == "exchange:of-any:none"


def test_names_that_a_subscription_may_read() -> None:
    """Each kind has spellings of its own."""
    assert is_place("queue:legacy queue", "rabbitmq")
    assert not is_place("queue:legacy", "pulsar")
    assert is_place("a/b/c", "pulsar")
    assert not is_place("a/b/c", "kafka")

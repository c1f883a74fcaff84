"""Where operators are told: a broker that is there, a plain topic, and whoever reads it."""

from __future__ import annotations

from collections.abc import Callable

Lint = Callable[..., list[str]]

ROUTE = (
    "routes: [{name: r, to: {broker: log, topic: t}, key: {mapper: attribute, attribute: id}}]\n"
)
TOLD = ROUTE + "operator_events: {broker: log, topic: operations}\n"
PAGER = (
    "subscriptions: [{id: pager, source: {broker: log, topics: [operations]}, "
    "sink: 'https://pager.example/'}]\n"
)


def test_a_topic_of_a_broker_is_clean_and_may_be_read(lint_text: Lint) -> None:
    """Operators are told by a subscription like any other; the topic is fed though no route feeds it."""
    assert lint_text(TOLD + PAGER) == []


def test_a_broker_that_is_not_there_is_an_error_with_a_guess(lint_text: Lint) -> None:
    """Found at the desk, not by the first event that nobody gets."""
    (found,) = lint_text(ROUTE + "operator_events: {broker: lgo, topic: operations}\n")
    assert found.startswith("error operator_events.broker: The broker 'lgo' does not exist")
    assert "log" in found


def test_a_template_is_no_topic_of_theirs(lint_text: Lint) -> None:
    """Their topic is made and looked after at the start: it must be known then."""
    (found,) = lint_text(ROUTE + "operator_events: {broker: log, topic: 'operations.{type}'}\n")
    assert found.startswith("error operator_events.topic: The value is not a topic name")

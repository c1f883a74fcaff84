"""Checks of ``sharing: topic``: where a membership can be shared, and when it is recommended."""

from __future__ import annotations

from collections.abc import Callable

from app.config.lint.subscriptions import MANY

Lint = Callable[..., list[str]]

KAFKA = (
    "version: 1\n"
    "brokers: {log: {kind: embedded, path: ./log}, main: {kind: kafka, bootstrap_servers: '127.0.0.1:9092'}}\n"
    "routes: [{name: r, to: {broker: main, topic: orders}, key: {mapper: attribute, attribute: id}},"
    " {name: l, to: {broker: log, topic: orders}, key: {mapper: attribute, attribute: id}}]\n"
)


def subscriptions(
    count: int, *, broker: str = "main", topics: str = "orders", more: str = ""
) -> str:
    each = (
        f"{{id: s{n}, source: {{broker: {broker}, topics: [{topics}]}}, sink: 'https://example.org/{n}'{more}}}"
        for n in range(count)
    )
    return f"{KAFKA}subscriptions: [{', '.join(each)}]\n"


def about_sharing(lint_text: Lint, text: str) -> list[str]:
    return [each for each in lint_text(text, minimal=False) if "membership" in each]


def test_a_kafka_topic_can_be_shared(lint_text: Lint) -> None:
    assert about_sharing(lint_text, subscriptions(2, more=", sharing: topic")) == []


def test_other_brokers_have_no_membership_to_share(lint_text: Lint) -> None:
    (found,) = about_sharing(lint_text, subscriptions(1, broker="log", more=", sharing: topic"))
    assert found.startswith("error subscriptions[0].sharing: Only subscriptions of Kafka")


def test_a_shared_membership_has_one_topic(lint_text: Lint) -> None:
    text = subscriptions(1, topics="orders, payments", more=", sharing: topic")
    (found,) = about_sharing(lint_text, text)
    assert found.startswith("error subscriptions[0].sharing: The subscription 's0' has several")


def test_sharing_is_recommended_from_fifty_on(lint_text: Lint) -> None:
    """The recommendation says what sharing costs. It counts Kafka subscriptions with groups of their own only."""
    assert about_sharing(lint_text, subscriptions(MANY - 1)) == []
    (found,) = about_sharing(lint_text, subscriptions(MANY))
    assert found.startswith(f"warning subscriptions: {MANY} subscriptions of the topic 'orders'")
    assert "repeats what was finished since the last batch" in found
    assert about_sharing(lint_text, subscriptions(MANY, more=", sharing: topic")) == []
    assert about_sharing(lint_text, subscriptions(MANY, broker="log")) == []

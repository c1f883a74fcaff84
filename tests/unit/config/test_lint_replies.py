"""Replies: a route that is there, and answers that would come back as questions."""

from __future__ import annotations

from collections.abc import Callable

Lint = Callable[..., list[str]]

ROUTES = (
    "routes: [{name: in, to: {broker: log, topic: a}, filters: [{exact: {type: q}}], "
    "key: {mapper: attribute, attribute: id}}, "
    "{name: answers, to: {broker: log, topic: b}, key: {mapper: attribute, attribute: id}}]\n"
)


def subscriptions(*given: str) -> str:
    return f"{ROUTES}subscriptions: [{', '.join(given)}]\n"


def webhook(name: str, topic: str, reply: str = "ignore") -> str:
    return (
        f"{{id: {name}, source: {{broker: log, topics: [{topic}]}}, sink: 'https://h.example/', "
        f"reply: {reply}}}"
    )


def test_a_reply_to_another_topic_is_clean(lint_text: Lint) -> None:
    assert lint_text(subscriptions(webhook("s", "a", "answers"), webhook("t", "b"))) == []


def test_a_route_that_is_not_there_is_an_error_with_a_guess(lint_text: Lint) -> None:
    (found,) = lint_text(subscriptions(webhook("s", "a", "anwsers")))
    assert found.startswith("error subscriptions[0].reply: The route 'anwsers' does not exist")
    assert "answers" in found


def test_answers_that_are_read_by_who_asked_are_a_warning(lint_text: Lint) -> None:
    """Its filters may tell them apart; else the count of replies ends it, noisily."""
    (found,) = lint_text(subscriptions(webhook("s", "b", "answers")))
    assert found.startswith(
        "warning subscriptions[0].reply: The replies of these subscriptions may cause each other in a loop, until the limit on replies ends the loop: 's' → 's'"
    )


def test_a_longer_way_home_is_told_at_each_reply_on_it(lint_text: Lint) -> None:
    found = lint_text(subscriptions(webhook("s", "a", "answers"), webhook("t", "b", "in")))
    assert ["'s' → 't' → 's'" in found[0], "'t' → 's' → 't'" in found[1]] == [True, True]


def test_a_way_home_may_lead_over_a_mirror(lint_text: Lint) -> None:
    mirror = "{id: m, source: {broker: log, topics: [b]}, sink: {broker: log, topic: a}}"
    (found,) = lint_text(subscriptions(webhook("s", "a", "answers"), mirror))
    assert "'s' → 'm' → 's'" in found


def test_a_route_of_the_reserved_name_is_a_warning(lint_text: Lint) -> None:
    text = (
        "routes: [{name: ignore, to: {broker: log, topic: a}, "
        "key: {mapper: attribute, attribute: id}}]\n"
    )
    assert any(
        "No subscription can publish replies by this route" in each for each in lint_text(text)
    )

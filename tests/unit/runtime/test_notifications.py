"""Who reads operator events, and would make more of them by failing."""

from __future__ import annotations

from app.features.notifications import REMEMBERED, Echoes, readers
from app.model.route import Target
from app.model.subscription import Subscription
from virtual_clock import VirtualClock

TOLD = Target(broker="log", topic="operations")


def a_subscription(name, topic="operations", sink="https://x.example/", **settings):
    return Subscription.model_validate(
        {"id": name, "source": {"broker": "log", "topics": [topic]}, "sink": sink, **settings}
    )


def mirror(name, topic, to, **settings):
    return a_subscription(name, topic, {"broker": "log", "topic": to}, **settings)


def test_readers_of_the_topic_are_found_and_others_are_not():
    """An event about the pager's dead letters would be the pager's next one."""
    assert readers(TOLD, [a_subscription("pager"), a_subscription("billing", "orders")]) == {
        "pager"
    }


def test_readers_behind_mirrors_are_found_however_far():
    """A circle over three topics is a circle."""
    chain = [
        mirror("first", "operations", "far"),
        mirror("second", "far", "farther"),
        a_subscription("pager", "farther"),
        a_subscription("billing", "orders"),
    ]
    assert readers(TOLD, chain) == {"first", "second", "pager"}


def test_mirrors_in_a_circle_end():
    """Looking must end, whatever was configured."""
    assert readers(TOLD, [mirror("a", "operations", "b"), mirror("b", "b", "operations")]) == {
        "a",
        "b",
    }


def test_a_mirror_by_template_may_lead_anywhere():
    """Errs to silence: better one event less than a circle."""
    found = readers(TOLD, [mirror("a", "operations", "{source}"), a_subscription("p", "x.y")])
    assert found == {"a", "p"}


def test_filters_that_want_none_of_ours_make_no_reader():
    """Operators may use a topic that others use too: those are told of as ever."""
    wants = {"filters": [{"prefix": {"type": "com.example."}}]}
    assert readers(TOLD, [a_subscription("billing", **wants)]) == set()


def test_what_the_api_makes_is_known_within_seconds():
    """Subscriptions come and go while the service runs."""
    clock, known = VirtualClock(), []
    echoes = Echoes(TOLD, lambda: known, clock)
    assert not echoes("pager")
    known.append(a_subscription("pager"))
    clock._now += REMEMBERED
    assert echoes("pager")

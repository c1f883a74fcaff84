"""A sink that is a topic: what can be one, and what would copy events for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.config.lint.checks import lint
from app.config.load.finding import Finding
from app.config.load.loader import Loaded

Lint = Callable[..., list[str]]

ROUTE = (
    "routes: [{name: r, to: [{broker: log, topic: a}, {broker: log, topic: b}], "
    "key: {mapper: attribute, attribute: id}}]\n"
)


def mirrors(*hops: tuple[str, str], **settings: str) -> str:
    """Subscriptions from one topic to another of the embedded log."""
    more = "".join(f", {name}: {value}" for name, value in settings.items())
    each = (
        f"{{id: m{n}, source: {{broker: log, topics: [{source}]}}, "
        f"sink: {{broker: log, topic: '{topic}'}}{more}}}"
        for n, (source, topic) in enumerate(hops)
    )
    return f"{ROUTE}subscriptions: [{', '.join(each)}]\n"


def test_a_mirror_to_another_topic_is_clean(lint_text: Lint) -> None:
    assert lint_text(mirrors(("a", "copy"))) == []


def test_a_mirror_into_its_own_source_is_refused(lint_text: Lint) -> None:
    """It would read what it writes, for ever."""
    (found,) = lint_text(mirrors(("a", "a")))
    assert found.startswith(
        "error subscriptions[0].sink.topic: The subscription reads the topic and also writes to it, so events would loop forever"
    )


def test_a_template_that_can_become_the_source_is_a_warning(lint_text: Lint) -> None:
    """Whether it does is known for each event only; the sink looks again."""
    (found,) = lint_text(mirrors(("a", "{type}")))
    assert found.startswith(
        "warning subscriptions[0].sink.topic: The topic template can produce a topic that the same subscription reads. Events for this topic become dead letters"
    )
    assert lint_text(mirrors(("a", "{type}"), filters="[{exact: {type: x}}]")) == []


def test_mirrors_that_feed_each_other_are_refused_once(lint_text: Lint) -> None:
    """Two of them ping-pong; told at the first, with the way."""
    (found,) = lint_text(mirrors(("a", "b"), ("b", "a")))
    assert found.startswith(
        "error subscriptions[0].sink: These subscriptions form a loop, which would copy an event forever: 'm0' → 'm1' → 'm0'"
    )


def test_a_circle_that_depends_on_attributes_is_a_warning(lint_text: Lint) -> None:
    (found,) = lint_text(mirrors(("a", "b"), ("b", "{type}")))[:1]
    assert "warning" in found


def test_filters_that_exclude_each_other_break_a_circle(lint_text: Lint) -> None:
    text = mirrors(("a", "b"), ("b", "a"))
    for n, origin in enumerate(("east", "west")):
        text = text.replace(f"id: m{n},", f"id: m{n}, filters: [{{exact: {{origin: {origin}}}}}],")
    assert lint_text(text) == []


def test_a_sink_on_a_broker_that_is_not_there_is_refused(lint_text: Lint) -> None:
    (found,) = lint_text(mirrors(("a", "b")).replace("sink: {broker: log", "sink: {broker: lok"))
    assert found.startswith("error subscriptions[0].sink.broker: The broker 'lok' does not exist")


def test_a_topic_that_can_be_none_is_refused(lint_text: Lint) -> None:
    (found,) = lint_text(mirrors(("a", "b c")))
    assert found.startswith("error subscriptions[0].sink.topic: The value is not a topic name")


def test_a_mirror_feeds_whoever_reads_its_target(lint_text: Lint) -> None:
    """No warning that nothing ever comes; with filters that want nothing of it there is one."""
    chain = mirrors(("a", "copy"), ("copy", "far"))
    assert lint_text(chain) == []
    chain = chain.replace("id: m0,", "id: m0, filters: [{exact: {type: x}}],")
    (found,) = lint_text(chain.replace("id: m1,", "id: m1, filters: [{exact: {type: y}}],"))
    assert "gets no events for 'm1'" in found


def test_a_mirror_may_read_what_others_write(load_text: Callable[..., Loaded]) -> None:
    """Moving from one broker to another is what a mirror is for."""
    text = (
        "version: 1\nstore: {kind: sqlite, path: /srv/s.db}\n"
        "brokers: {log: {kind: embedded, path: /srv/l}, "
        "main: {kind: kafka, bootstrap_servers: '127.0.0.1:9', topics: {create: true}}}\n" + ROUTE
    )
    text += (
        "subscriptions: [{id: m, source: {broker: main, topics: [theirs]}, "
        "sink: {broker: log, topic: ours}}]\n"
    )
    assert [found.setting for found in lint(load_text(text))] == ["store.path"]  # what it costs


def test_an_exchange_needs_rabbitmq(lint_text: Lint) -> None:
    (found,) = lint_text(mirrors(("a", "b")).replace("topic: 'b'}", "exchange: 'b'}"))
    assert found.startswith(
        "error subscriptions[0].sink.exchange: The broker 'log' is of kind embedded"
    )


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("{broker: log, topc: x}", "subscriptions[0].sink.topic: The setting is missing"),
        ("5", "subscriptions[0].sink: The value is not text"),
    ],
)
def test_a_sink_that_is_neither_url_nor_place_is_refused(
    refusal: Callable[..., list[Finding]], sink: str, said: str
) -> None:
    text = mirrors(("a", "b")).replace("{broker: log, topic: 'b'}", sink)
    found = [f"{each.setting}: {each.message}" for each in refusal(text, minimal=True)]
    assert any(each.startswith(said) for each in found), found


def test_forward_is_for_topics_only(refusal: Callable[..., list[Finding]]) -> None:
    text = mirrors(("a", "b"), on_foreign="forward")
    text = text.replace("{broker: log, topic: 'b'}", "'https://example.org/'")
    (found,) = refusal(text, minimal=True)
    assert "needs a topic as sink" in found.message


def several(*hops: tuple[str, str, str]) -> str:
    """Mirrors that read several topics each; the last of each is its settings."""
    each = (
        f"{{id: m{n}, source: {{broker: log, topics: [{sources}]}}, "
        f"sink: {{broker: log, topic: {topic}}}, {more}}}"
        for n, (sources, topic, more) in enumerate(hops)
    )
    return f"{ROUTE}subscriptions: [{', '.join(each)}]\n"


def test_layers_of_mirrors_are_looked_at_in_no_time(lint_text: Lint) -> None:
    """There are 2^58 ways through them, and none leads back: with 18 of them the check took minutes, and the
    API makes it at each subscription that a caller creates (rule 8)."""
    tops = ["a", *(f"t{n}" for n in range(1, 60))]
    layers = [(", ".join(tops[:n]), tops[n], "ordering: none") for n in range(1, 60)]
    assert lint_text(several(*layers)) == []


def test_the_search_for_a_circle_ends(lint_text: Lint) -> None:
    """The only way back excludes the only way on: every order of what is in between would be tried."""
    middle = [f"t{n}" for n in range(14)]
    hops = [
        ("a, back", "first", "ordering: none"),
        ("first", "t0", "ordering: none, filters: [{exact: {subject: x}}]"),
        *((", ".join({*middle} - {t}), t, "ordering: none") for t in middle),
        (", ".join(middle), "back", "ordering: none, filters: [{exact: {subject: y}}]"),
    ]
    found = [
        each
        for each in lint_text(several(*hops))
        if "These subscriptions form a loop, which would copy an event forever: " in each
    ]
    assert found
    assert not [each for each in found if "m0" in each]

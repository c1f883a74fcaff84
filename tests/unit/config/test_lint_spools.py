"""What can be no spool is told before the start, each with its cure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Lint = Callable[..., list[str]]

BROKERS = """version: 1
store: {{kind: sqlite, path: /srv/skybridge/store.db}}
brokers:
  log: {{kind: embedded, path: /srv/skybridge/log{cap}}}
  main: {{kind: kafka, bootstrap_servers: "127.0.0.1:9092", topics: {{create: true}}}}
"""
SPOOL = "{broker: log, max: 1MiB}"


def route(spool: str = SPOOL, more: str = "", to: str = "{broker: main, topic: orders}") -> str:
    return f"{{name: orders, to: {to}, spool: {spool}{more}}}"


def of(lint: Lint, *routes: str, cap: str = "", more: str = "") -> list[str]:
    return lint(BROKERS.format(cap=cap) + f"routes: [{', '.join(routes)}]\n{more}", minimal=False)


def test_a_spool_on_an_embedded_log_is_clean(lint_text: Lint) -> None:
    assert of(lint_text, route()) == []


@pytest.mark.parametrize(
    ("text", "setting", "words"),
    [
        (route("{broker: main, max: 1MiB}"), "spool.broker", "is of kind kafka"),
        (route("{broker: lgo, max: 1MiB}"), "spool.broker", "The broker"),
        (route(to="{broker: log, topic: a}"), "spool", "always available"),
        (
            route(to="[{broker: main, topic: a}, {broker: main, topic: b}]"),
            "spool",
            "A spool works only on a route with one target",
        ),
        (route(more=", durability: relaxed"), "spool", "durability: relaxed may lose some"),
        (
            route(more=", deduplicate: {}"),
            "spool",
            "A spool cannot be combined with deduplicate, because deduplicate does not recognise events in a spool",
        ),
        (route("{broker: log, max: 1000000TiB}"), "spool.max", "the volume of"),
    ],
)
def test_what_can_be_no_spool_is_an_error(
    lint_text: Lint, text: str, setting: str, words: str
) -> None:
    found = [each for each in of(lint_text, text) if each.startswith("error")]
    assert len(found) == 1, found
    assert found[0].startswith(f"error routes[0].{setting}: ")
    assert words in found[0]


def test_all_spools_of_a_log_must_fit_its_cap(lint_text: Lint) -> None:
    """Else the log is full before ``max`` is reached, for all of its topics."""
    other = route().replace("name: orders", "name: others, filters: [{exact: {type: x}}]")
    assert of(lint_text, other, route(), cap=", size_cap: 2MiB") == []
    (found,) = of(lint_text, other, route(), cap=", size_cap: 1MiB")
    assert found.startswith("error routes[1].spool.max: The spools in 'log' may take 2097152")


@pytest.mark.parametrize(
    "more",
    [
        "subscriptions: [{id: s, source: {broker: log, topics: [__spool.orders]}, sink: 'https://a.example'}]",
        "subscriptions: [{id: s, source: {broker: main, topics: [a]}, sink: {broker: log, topic: __spool.a}}]",
    ],
)
def test_the_topic_of_a_spool_is_nobody_elses(lint_text: Lint, more: str) -> None:
    found = [each for each in of(lint_text, route(), more=more) if each.startswith("error")]
    assert len(found) == 1, found
    assert "__spool.*" in found[0]

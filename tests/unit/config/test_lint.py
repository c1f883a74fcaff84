"""What a valid configuration may still get wrong: every finding has its test."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from app.config.lint.checks import lint
from app.config.load.finding import Finding
from app.config.load.loader import Loaded
from app.formats import avro_schema
from certificate_pairs import CertificatePair

Lint = Callable[..., list[str]]
Load = Callable[..., Loaded]

ROUTE = (
    "routes: [{name: r, to: {broker: log, topic: t}, key: {mapper: attribute, attribute: id}}]\n"
)


def subscription(**settings: str) -> str:
    """One subscription that lints clean beside ROUTE, in flow style, with some settings changed."""
    whole = {"id": "s", "source": "{broker: log, topics: [t]}", "sink": "'https://example.org/'"}
    inside = ", ".join(f"{name}: {value}" for name, value in (whole | settings).items())
    return f"subscriptions: [{{{inside}}}]\n"


def kafka(**settings: str) -> str:
    whole = {"kind": "kafka", "bootstrap_servers": "'127.0.0.1:9092'"} | settings
    inside = ", ".join(f"{name}: {value}" for name, value in whole.items())
    return (
        "version: 1\nstore: {kind: sqlite, path: /srv/s.db}\n"
        f"brokers: {{log: {{kind: embedded, path: /srv/l}}, main: {{{inside}}}}}\n"
    )


def test_a_sound_configuration_has_no_findings(lint_text: Lint) -> None:
    """Warnings that come for nothing teach people not to read them."""
    assert lint_text(ROUTE + subscription()) == []


def test_events_that_are_pulled_go_nowhere(lint_text: Lint) -> None:
    """No broker is looked for, no address, no circle; what feeds it is looked at as for any other."""
    assert lint_text(ROUTE + subscription(sink="{pull: {}}")) == []
    (found,) = lint_text(
        ROUTE + subscription(sink="{pull: {}}", source="{broker: log, topics: [u]}")
    )
    assert found.startswith("warning subscriptions[0].source.topics[0]: The topic ")


# --- brokers that routes and subscriptions name


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "routes: [{name: r, to: {broker: lgo, topic: t}}]\n",
            "error routes[0].to.broker: The broker 'lgo' does not exist. Cure: Did you mean log?",
        ),
        (
            "routes: [{name: r, to: [{broker: log, topic: t}, {broker: other, topic: t}]}]\n",
            "error routes[0].to[1].broker: The broker 'other' does not exist. Cure: Use one of: log.",
        ),
        (
            ROUTE + subscription(source="{broker: other, topics: [t]}"),
            "error subscriptions[0].source.broker: The broker 'other' does not exist. Cure: Use one of: log.",
        ),
        (
            ROUTE + subscription(dead_letter="{broker: other, topic: d}"),
            (
                "error subscriptions[0].dead_letter.broker: The broker 'other' does not exist. Cure: Use one of: log."
            ),
        ),
    ],
)
def test_an_unknown_broker_is_an_error(lint_text: Lint, text: str, finding: str) -> None:
    """It would be an error of every event instead."""
    assert lint_text(text) == [finding]


# --- routes


def test_names_are_taken_once(lint_text: Lint) -> None:
    """A second route of a name could not be addressed; a second subscription would share a group."""
    two = "routes: [{name: r, filters: [{exact: {type: a}}], to: {broker: log, topic: t}}, {name: r, to: {broker: log, topic: t}}]\n"
    assert lint_text(two) == [
        "error routes[1].name: The name 'r' is already used by routes[0]. Cure: Choose another name."
    ]
    one = "{id: s, source: {broker: log, topics: [t]}, sink: 'https://example.org/'}"
    assert lint_text(f"{ROUTE}subscriptions: [{one}, {one}]\n") == [
        (
            "error subscriptions[1].id: The id 's' is already used by subscriptions[0]. Cure: Choose another id."
        )
    ]


def test_no_route_is_a_warning(lint_text: Lint) -> None:
    """A worker alone may have none; a gateway would refuse everything."""
    assert lint_text("") == [
        "warning routes: The list of routes is empty, so the answer to every posted event is 422. Cure: Add a route."
    ]


@pytest.mark.parametrize(
    ("brokers", "routes", "found"),
    [
        ("main: {kind: kafka, bootstrap_servers: 'k:9092'}", "", []),
        ("main: {kind: kafka, bootstrap_servers: 'k:9092'}", ROUTE, []),
        ("main: {kind: rabbitmq, addresses: 'r:5672'}", "", []),
        ("main: {kind: embedded, path: /srv/l, kafka_listener: '127.0.0.1:0'}", "", []),
        ("main: {kind: embedded, path: /srv/l}", "", ["routes:", "subscriptions[0].source.topics[0]:"]),
    ],
)  # fmt: skip
def test_topics_that_others_feed_need_no_route(
    lint_text: Lint, brokers: str, routes: str, found: list[str]
) -> None:
    """To deliver what other clients write is a whole task of its own: nothing is wrong with it."""
    text = (
        "version: 1\nstore: {kind: sqlite, path: /srv/s.db}\n"
        f"brokers: {{log: {{kind: embedded, path: /srv/log}}, {brokers}}}\n{routes}"
    )
    told = lint_text(text + subscription(source="{broker: main, topics: [others]}"), minimal=False)
    accusing = [each.split()[1] for each in told if "422" in each or "gets no events" in each]
    assert accusing == found


@pytest.mark.parametrize(
    "earlier",
    ["", "filters: [{exact: {type: a.b}}], ", "filters: [{prefix: {type: a}}], ", "filters: [{suffix: {type: b}}, {prefix: {type: a.}}], "],
)  # fmt: skip
def test_a_route_that_never_matches_is_a_warning(lint_text: Lint, earlier: str) -> None:
    """It stands behind a catch-all, or behind one that wants all it wants."""
    text = f"routes:\n  - {{name: first, {earlier}to: {{broker: log, topic: t}}}}\n  - {{name: second, filters: [{{exact: {{type: a.b}}}}], to: {{broker: log, topic: t}}}}\n"
    assert lint_text(text) == [
        (
            "warning routes[1]: The route 'second' never matches, because 'first' (routes[0]) takes its events first; only /events/second reaches it. Cure: Put the route 'second' before 'first', or narrow the filters of 'first'."
        )
    ]


def test_a_filter_that_cannot_be_meant_is_a_warning(lint_text: Lint) -> None:
    """It is legal, and the events it was written for would never come."""
    text = "routes: [{name: r, filters: [{not: {sql: LENGHT(id) > 1}}], to: {broker: log, topic: t}}]\n"
    assert lint_text(text) == [
        (
            "warning routes[0].filters[0].not.sql: There is no function LENGHT of 1 argument. Cure: Did you mean LENGTH?"
        )
    ]


def test_a_route_that_can_match_is_left_alone(lint_text: Lint) -> None:
    """A narrower route before a wider one is the usual way."""
    text = "routes:\n  - {name: a, filters: [{prefix: {type: a.}}], to: {broker: log, topic: t}}\n  - {name: b, to: {broker: log, topic: t}}\n"
    assert lint_text(text) == []


@pytest.mark.parametrize(
    ("route", "finding"),
    [
        ("to: {broker: log, topic: 'a b'}", "error routes[0].to.topic: The value is not a topic name. Cure: 1 to 249 of a-z A-Z 0-9 . _ -, not . or .."),
        ("to: [{broker: log, topic: 'x.{Type}'}]", "error routes[0].to[0].topic: unknown placeholder {Type}. Cure: {attribute} has only a-z and 0-9; write literal braces as {{ and }}."),
        ("to: [{broker: log, topic: t}], key: {mapper: template, template: '{'}", "error routes[0].key.template: stray {. Cure: {attribute} has only a-z and 0-9; write literal braces as {{ and }}."),
        ("to: [{broker: log, topic: t}, {broker: log, topic: t}]", "error routes[0].to[1]: The list of targets has the same target twice. Cure: Remove one of the two targets."),
    ],
)  # fmt: skip
def test_a_route_that_cannot_be_made_is_an_error(lint_text: Lint, route: str, finding: str) -> None:
    """`check` tells at the desk what the start would refuse."""
    assert lint_text(f"routes: [{{name: r, {route}}}]\n") == [finding]


# --- topics


def test_a_topic_that_nobody_creates_is_a_warning(lint_text: Lint) -> None:
    """Kafka without topics.create: once for each topic, wherever it is named first."""
    text = kafka() + (
        "routes: [{name: r, to: [{broker: main, topic: t}, {broker: main, topic: 'x.{type}'}, {broker: log, topic: t}], key: {mapper: attribute, attribute: id}}]\n"
        + subscription(source="{broker: main, topics: [t]}", dead_letter="{broker: main, topic: d}")
    )
    cure = "Cure: Create the topic, or set brokers.main.topics.create: true."
    found = [each for each in lint_text(text, minimal=False) if "store.path" not in each]
    assert found == [
        f"warning routes[0].to[0].topic: The topic 't' must exist on 'main', which creates no topics. {cure}",
        f"warning routes[0].to[1].topic: The topics of this template must exist on 'main', which creates no topics. {cure}",
        f"warning subscriptions[0].dead_letter.topic: The topic 'd' must exist on 'main', which creates no topics. {cure}",
    ]
    made = text.replace("kind: kafka", "kind: kafka, topics: {create: true}")
    assert [each for each in lint_text(made, minimal=False) if "store.path" not in each] == []


# --- subscriptions


def test_a_subscription_that_no_route_can_feed_is_a_warning(lint_text: Lint) -> None:
    """It would be healthy, and silent for ever."""
    assert lint_text(ROUTE + subscription(source="{broker: log, topics: [t, other]}")) == [
        (
            "warning subscriptions[0].source.topics[1]: The topic 'other' of broker 'log' gets no events for 's' from any route. Cure: Add a route to this topic, or correct the broker, the topic or the filters."
        )
    ]


@pytest.mark.parametrize(
    ("filters", "topic", "fed"),
    [
        ("", "orders.anything.at.all", True),
        ("", "orders.", False),
        ("", "other.x", False),
        ("filters: [{exact: {type: created}}], ", "orders.created", True),
        ("filters: [{exact: {type: created}}], ", "orders.deleted", False),
    ],
)
def test_topic_templates_are_considered(
    lint_text: Lint, filters: str, topic: str, fed: bool
) -> None:
    """A template feeds whatever topic it can become."""
    route = f"routes: [{{name: r, {filters}to: {{broker: log, topic: 'orders.{{type}}'}}, key: {{mapper: attribute, attribute: id}}}}]\n"
    text = route + subscription(source=f"{{broker: log, topics: [{topic}]}}")
    assert any("gets no events for" in each for each in lint_text(text)) is not fed


def test_filters_that_want_nothing_of_what_comes_are_a_warning(lint_text: Lint) -> None:
    """The topic is right and the type misspelt: the usual reason for silence."""
    route = "routes: [{name: r, filters: [{prefix: {type: com.order.}}], to: {broker: log, topic: t}, key: {mapper: attribute, attribute: id}}]\n"
    (finding,) = lint_text(route + subscription(filters="[{exact: {type: com.ordr.created}}]"))
    assert "the filters of the subscription match none of the topic's events" in finding
    assert lint_text(route + subscription(filters="[{exact: {type: com.order.created}}]")) == []


@pytest.mark.parametrize(
    ("key", "warned"),
    [
        ("{mapper: none}", True),
        ("{}", True),
        ("{mapper: from_request, missing: reject}", False),
        ("{mapper: partitionkey}", True),
        ("{mapper: attribute, attribute: subject}", True),
        ("{mapper: attribute, attribute: source}", False),
        ("{mapper: template, template: '{source}/{subject}'}", True),
        ("{mapper: template, template: '{source}/{type}'}", False),
        ("{mapper: pointer, pointer: /id}", True),
        ("{mapper: pointer, pointer: /id, missing: reject}", False),
        ("{mapper: hash, attributes: [subject, tenant]}", True),
        ("{mapper: hash, attributes: [subject, source]}", False),
    ],
)
def test_order_per_key_without_keys_is_a_warning(lint_text: Lint, key: str, warned: bool) -> None:
    """Rule 3: events without a key have no order; nobody would notice until it matters."""
    text = f"routes: [{{name: r, to: {{broker: log, topic: t}}, key: {key}}}]\n"
    expected = "warning subscriptions[0]: The subscription 's' keeps order per key, but events of these routes may have no key: 'r'. Cure: Give these routes a key with missing: reject, or set order_by or ordering: none on the subscription."
    assert lint_text(text + subscription()) == ([expected] if warned else [])
    assert lint_text(text + subscription(ordering="none")) == []
    assert lint_text(text + subscription(order_by="id")) == []


@pytest.mark.parametrize(
    ("settings", "finding"),
    [
        (
            {"dead_letter": "{broker: log, topic: t}"},
            (
                "error subscriptions[0].dead_letter.topic: The topic of the dead letters is also a source of the subscription, so dead letters would loop forever. Cure: Name another topic."
            ),
        ),
        (
            {"dead_letter": "{broker: log, topic: 'd.{type}'}"},
            (
                "error subscriptions[0].dead_letter.topic: The value is not a topic name. Cure: Write a topic name of fixed text, without placeholders in braces."
            ),
        ),
    ],
)
def test_dead_letters_need_a_place_of_their_own(
    lint_text: Lint, settings: dict[str, str], finding: str
) -> None:
    """A circle of dead letters fills a disk overnight."""
    assert lint_text(ROUTE + subscription(**settings)) == [finding]


def test_a_source_is_a_name_not_a_pattern(lint_text: Lint) -> None:
    """orders.* is what people try first."""
    text = ROUTE + subscription(source="{broker: log, topics: [t, 'orders.*']}")
    assert lint_text(text) == [
        "error subscriptions[0].source.topics[1]: The value is not a topic name. Cure: Write 1 to 249 of the characters a-z A-Z 0-9 . _ -."
    ]


# --- sinks

ALLOW = "webhooks: {allow_private: ['10.0.0.0/8', '*.svc', localhost]}\n"
PLAIN = "The URL begins with http://, which is allowed only for hosts in webhooks.allow_private"


@pytest.mark.parametrize(
    ("sink", "allow", "finding"),
    [
        ("http://hook.example/", "", f"error subscriptions[0].sink: {PLAIN}. Cure: Begin the URL with https://, or add the host to webhooks.allow_private."),
        ("http://127.0.0.1:9/", "", f"error subscriptions[0].sink: {PLAIN}. Cure: Begin the URL with https://, or add the host to webhooks.allow_private."),
        ("http://192.168.0.1/", ALLOW, f"error subscriptions[0].sink: {PLAIN}. Cure: Begin the URL with https://, or add the host to webhooks.allow_private."),
        ("http://hook.example/", ALLOW, f"warning subscriptions[0].sink: {PLAIN}. The URL works only if its host name resolves to an address in one of these networks. Cure: Add the host name to webhooks.allow_private too, or begin the URL with https://."),
        ("http://10.1.2.3/", ALLOW, None),
        ("http://shop.svc/", ALLOW, None),
        ("http://localhost:9000/", ALLOW, None),
        ("http://localhost:9000/", "webhooks: {allow_private: ['127.0.0.0/8']}\n", None),
        ("https://hook.example/", "", None),
        ("https://93.184.216.34/", "", None),
        ("https://10.1.2.3/", "", "error subscriptions[0].sink: The URL has a private address that webhooks.allow_private does not list. Cure: Add the address to webhooks.allow_private."),
        ("https://[::1]/", ALLOW, "error subscriptions[0].sink: The URL has a private address that webhooks.allow_private does not list. Cure: Add the address to webhooks.allow_private."),
        ("https://169.254.169.254/", ALLOW, "error subscriptions[0].sink: The URL has a private address that webhooks.allow_private does not list. Cure: Add the address to webhooks.allow_private."),
        ("https://localhost/", "", "error subscriptions[0].sink: The URL has a private address that webhooks.allow_private does not list. Cure: Add the address to webhooks.allow_private."),
        ("https://10.1.2.3/", ALLOW, None),
        ("https://user:word@hook.example/", "", "error subscriptions[0].sink: The URL has a user name or password, which would appear in logs. Cure: Remove the user name and the password from the URL, and set auth."),
        ("https://hook.example a/", "", "error subscriptions[0].sink: The value is not a URL. Cure: Write the value as https://host:port/path, with a port from 1 to 65535."),
        ("https://:80/", "", "error subscriptions[0].sink: The value is not a URL. Cure: Write the value as https://host:port/path, with a port from 1 to 65535."),
        ("https://hook.example/a#b", "", "warning subscriptions[0].sink: The URL has a fragment, which no HTTP request has, so the target does not get it. Cure: Remove # and what follows, or write # as %23."),
        ("https://hook.example:0/", "", "error subscriptions[0].sink: The value is not a URL. Cure: Write the value as https://host:port/path, with a port from 1 to 65535."),
        ("https://hook.example:99999/", "", "error subscriptions[0].sink: The value is not a URL. Cure: Write the value as https://host:port/path, with a port from 1 to 65535."),
    ],
)  # fmt: skip
def test_a_sink_that_would_be_refused_is_told(
    lint_text: Lint, sink: str, allow: str, finding: str | None
) -> None:
    """What the address guard will refuse for every attempt is told before the first one."""
    assert lint_text(ROUTE + subscription(sink=f"'{sink}'") + allow) == (
        [finding] if finding else []
    )


FOREIGN = "which a URL may not have (RFC 3986)"


@pytest.mark.parametrize(
    ("sink", "named"),
    [
        ("https://h.example/a?to=a%40b&dir=in%2Fbox;x=+&y=/?:@!$'()*,~", None),
        ("https://h.example//a/../b/?", None),
        ("https://b\u00fccher.example/", None),
        ("https://h.example/a b", "' ', "),
        ("https://h.example/{id}?f[a]=1", "'{', '}', '[', ']', "),
        ("https://h.example/\u00fc", "'\u00fc', "),
        ("https://h.example/?rate=100%", "'%', "),
        ("https://h.example/%zz", "'%', "),
        ("https://h.example/a\\tb", "U+0009, "),
    ],
)
def test_a_character_of_a_sink_that_is_encoded_is_told(
    lint_text: Lint, sink: str, named: str | None
) -> None:
    """Its target may read another URL than the one that is written (RFC 3986 2.2)."""
    found = lint_text(ROUTE + subscription(sink=f'"{sink}"'))
    assert [each.partition(named or "")[1] for each in found] == ([named] if named else [])
    assert all(each.startswith("warning subscriptions[0].sink: The URL has ") for each in found)
    assert all(FOREIGN in each for each in found)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("subscriptions[0].auth.token_endpoint", subscription(auth="{kind: oauth2, client_id: i, client_secret: s, token_endpoint: 'https://id.example/{t}'}")),
        ("webhooks.callback", "webhooks: {callback: 'https://bridge.example/{t}'}"),
        ("telemetry.traces.endpoint", "telemetry: {traces: {endpoint: 'https://o.example/{t}'}}"),
    ],
)  # fmt: skip
def test_a_character_of_any_url_that_requests_go_to_is_told(
    lint_text: Lint, setting: str, text: str
) -> None:
    (found,) = lint_text(f"{ROUTE}{text}\n")
    assert found.startswith(f"warning {setting}: The URL has '{{', '}}', {FOREIGN}")
    assert found.endswith("Cure: Write percent codes: %7B %7D.")


@pytest.mark.parametrize(
    ("entry", "level"),
    [("10.0.0.0/33", "error"), ("http://x/", "error"), ("*", "warning"), ("0.0.0.0/0", "warning"), ("10.0.0.1", None), ("fd00::/8", None)],
)  # fmt: skip
def test_entries_of_allow_private_are_networks_or_hosts(
    lint_text: Lint, entry: str, level: str | None
) -> None:
    """A mistyped network allows nothing; a star allows the cloud's metadata service."""
    found = lint_text(f"{ROUTE}webhooks: {{allow_private: ['{entry}']}}\n")
    assert [each.split(":")[0] for each in found] == (
        [f"{level} webhooks.allow_private[0]"] if level else []
    )


# --- listeners

MINIMAL_BROKER = (
    "version: 1\nbrokers: {log: {kind: embedded, path: /srv/log, in_flight: {records: 9}}}\n"
)
NEEDS = (
    "error server.admin.host: The admin listener is reachable from other machines and has no token."
)

SHORT = "server.admin.token: The token has fewer than 16 characters, so it can be guessed."


@pytest.mark.parametrize(
    ("admin", "start"),
    [
        ("host: 0.0.0.0", NEEDS),
        ("host: '::'", NEEDS),
        ("host: admin.internal", NEEDS),
        ("host: ''", NEEDS),
        ("host: 127.8.8.8", None),
        ("host: localhost", None),
        ("host: '::1'", None),
        ('token: "sixteen-letters-\\x9f"', "error server.admin.token: The token has a character that no header can carry."),
        ("token: fifteen-letters", f"error {SHORT}"),
        ("host: 0.0.0.0, token: ' fifteen-letters '", f"error {SHORT}"),
        ("token: sixteen-letters-", None),
        ("host: 0.0.0.0, token: sixteen-letters-", "warning server.admin.token: The admin token crosses the network unencrypted."),
        ("port: 8080", "error server.admin.port: The admin listener has the same port as the events listener."),
    ],
)  # fmt: skip
def test_the_admin_listener_is_guarded(lint_text: Lint, admin: str, start: str | None) -> None:
    """Off loopback it refuses to start without a token: it can pause deliveries."""
    found = lint_text(f"{ROUTE}server: {{admin: {{{admin}}}}}\n")
    assert [each.partition(" Cure")[0] for each in found] == ([start] if start else [])


def test_a_token_that_is_too_short_is_refused_with_a_cure(lint_text: Lint) -> None:
    """Whoever guesses it reads every event and stops every delivery."""
    (found,) = lint_text(f"{ROUTE}server: {{admin: {{token: s3cret}}}}\n")
    assert found.endswith("Cure: Use a longer token, made for example by openssl rand -hex 16.")
    assert "s3cret" not in found


A, B = "one-token-of-sixteen", "two-token-of-sixteen"


@pytest.mark.parametrize(
    ("admin", "starts"),
    [
        (f"tokens: [{{name: a, token: {A}, scopes: [read]}}]", []),
        (f"host: 0.0.0.0, tokens: [{{name: a, token: {A}, scopes: [read]}}]",
         ["warning server.admin.tokens[0].token: The admin token crosses the network unencrypted."]),
        ("tokens: [{name: a, token: short, scopes: [read]}]",
         ["error server.admin.tokens[0].token: The token has fewer than 16 characters, so it can be guessed."]),
        (f"tokens: [{{name: a, token: {A}, scopes: [read]}}, {{name: a, token: {B}, scopes: [read]}}]",
         ["error server.admin.tokens[1].name: The name 'a' is already used by server.admin.tokens[0]."]),
        (f"tokens: [{{name: signal, token: {A}, scopes: [read]}}]",
         ["error server.admin.tokens[0].name: The name 'signal' is reserved in the audit log."]),
        (f"token: {A}, tokens: [{{name: a, token: {A}, scopes: [read]}}]",
         ["error server.admin.tokens[0].token: The token has the same text as server.admin.token."]),
        (f"tokens: [{{name: a, token: {A}, previous_token: {A}, scopes: [read]}}]",
         ["error server.admin.tokens[0].previous_token: The token has the same text as server.admin.tokens[0].token."]),
    ],
)  # fmt: skip
def test_tokens_cannot_be_guessed_or_mistaken(
    lint_text: Lint, admin: str, starts: list[str]
) -> None:
    """The audit names the caller by its token."""
    found = lint_text(f"{ROUTE}server: {{admin: {{{admin}}}}}\n")
    assert [each.partition(" Cure")[0] for each in found] == starts
    assert A not in "".join(found)


UNSAID = "error server.events.access: The setting access is missing, and the events listener is reachable from other machines."
NOBODY = "error server.events.access: The setting access has the value producers, but no producer can send over HTTP. Every event would be refused."


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ("host: 0.0.0.0", [UNSAID]),
        ("host: '::'", [UNSAID]),
        ("host: bridge.internal, tls: {cert: CERT, key: CERT}", [UNSAID]),
        ("host: 0.0.0.0, tls: {cert: CERT, key: CERT, client_ca: AUTHORITY}", [UNSAID]),
        ("host: 0.0.0.0, access: open", []),
        ("host: 0.0.0.0, access: producers", [NOBODY]),
        ("access: producers", [NOBODY]),
        ("host: localhost", []),
    ],
)
def test_off_loopback_it_is_said_who_may_send(
    lint_text: Lint, tmp_path: Path, events: str, told: list[str]
) -> None:
    """Nobody opens the door without knowing it."""
    authority = trustme.CA()
    issued = authority.issue_cert("bridge.internal")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "c.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    events = events.replace("CERT", str(tmp_path / "c.pem"))
    events = events.replace("AUTHORITY", str(tmp_path / "ca.pem"))
    found = lint_text(f"{ROUTE}server: {{events: {{{events}}}}}\n")
    assert [each.partition(" Cure")[0] for each in found] == told


def test_two_free_ports_do_not_clash(lint_text: Lint) -> None:
    """Port 0 takes a free one, each time another."""
    assert lint_text(f"{ROUTE}server: {{events: {{port: 0}}, admin: {{port: 0}}}}\n") == []


def test_tls_files_are_read(
    lint_text: Lint, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of listeners, brokers and webhooks: what TLS cannot use is an error, what a peer may refuse a warning."""
    pair = CertificatePair(tmp_path, trustme.CA(), "ours")
    tls = f"{{cert: {pair.cert}, key: {pair.key}}}"
    texts = {
        "server.events.tls": f"{ROUTE}server: {{events: {{tls: {tls}}}}}\n",
        "server.admin.tls": f"{ROUTE}server: {{admin: {{tls: {tls}}}}}\n",
        "brokers.log.kafka_listener.tls": "version: 1\nbrokers: {log: {kind: embedded, path: /srv/l,"
        f' kafka_listener: {{listen: "127.0.0.1:1", tls: {tls}}}}}}}\nstore: {{kind: sqlite, path: /srv/s.db}}\n{ROUTE}',
        "brokers.main.security.tls": kafka(security=f"{{tls: {tls}}}") + ROUTE,
        "subscriptions[0].tls": ROUTE + subscription(tls=tls),
    }

    def found() -> list[str]:
        return [
            said.replace(setting, "TLS")
            for setting, text in texts.items()
            for said in lint_text(text, minimal="brokers" not in setting)
        ]

    assert found() == []
    pair.write_cert(pair.issue())
    mixed = f"error TLS.key: {pair.key} does not belong to the certificate in {pair.cert}"
    assert [said.partition(":")[0] for said in found()] == ["error TLS.key"] * len(texts)
    assert all(said.startswith(mixed) for said in found())
    pair.renew()
    pair.encrypt_key()
    assert len(found()) == len(texts)
    assert all(said.startswith(f"error TLS.key: {pair.key} is encrypted") for said in found())
    begin, end = (dt.datetime(2024, month, 1, tzinfo=dt.UTC) for month in (1, 2))
    pair.renew(not_before=begin, not_after=end)
    over = f"warning TLS.cert: {pair.cert} has expired on 2024-02-01"
    assert len(found()) == len(texts)
    assert all(said.startswith(over) for said in found())
    assert "pass phrase:" not in "".join(capfd.readouterr())


def test_the_files_of_a_dsn_are_read(lint_text: Lint, tmp_path: Path) -> None:
    pair = CertificatePair(tmp_path, trustme.CA(), "ours")
    dsn = f"postgresql://u:p@db/d?sslcert={pair.cert}&sslkey={pair.key}"
    log = "version: 1\nbrokers: {log: {kind: embedded, path: /srv/l}}\n"
    text = f"{log}{ROUTE}store: {{kind: postgresql, dsn: '{dsn}'}}\n"
    assert [each for each in lint_text(text, minimal=False) if "ssl" in each] == []
    pair.encrypt_key()
    (said,) = [each for each in lint_text(text, minimal=False) if "ssl" in each]
    assert said.startswith(f"error store.dsn: sslkey {pair.key} is encrypted")


def test_tls_files_must_be_there(lint_text: Lint, tmp_path: Path) -> None:
    """Of listeners and of brokers alike."""
    (tmp_path / "c.pem").write_text("")
    tls = f"{{cert: {tmp_path}/c.pem, key: {tmp_path}/k.pem}}"
    (found,) = lint_text(f"{ROUTE}server: {{events: {{tls: {tls}}}}}\n")
    assert found.startswith("error server.events.tls.key: The file does not exist on this machine")
    tls = f"{{cert: {tmp_path}/c.pem, key: {tmp_path}/c.pem, client_ca: {tmp_path}/ca.pem}}"
    (found,) = lint_text(f"{ROUTE}server: {{events: {{tls: {tls}}}}}\n")
    assert found.startswith(
        "error server.events.tls.client_ca: The file does not exist on this machine"
    )
    text = kafka(security=f"{{tls: {{ca: {tmp_path}/ca.pem}}}}") + ROUTE
    (found,) = lint_text(text, minimal=False)
    assert found.startswith(
        "error brokers.main.security.tls.ca: The file does not exist on this machine"
    )


# --- brokers and store


def test_two_logs_in_one_folder_are_an_error(lint_text: Lint) -> None:
    """However the folder is spelt; the second would not get its lock."""
    text = "version: 1\nbrokers: {a: {kind: embedded, path: /srv/x}, b: {kind: embedded, path: /srv/y/../x}}\nstore: {kind: sqlite, path: /srv/s.db}\n"
    (found, *_) = [each for each in lint_text(text, minimal=False) if "error" in each]
    assert found.startswith("error brokers.b.path: The broker 'a' uses the same folder")


def test_the_store_is_a_file_and_the_log_a_folder(lint_text: Lint, tmp_path: Path) -> None:
    """Mixed up easily: both are paths."""
    (tmp_path / "file").write_text("")
    text = f"version: 1\nbrokers: {{a: {{kind: embedded, path: {tmp_path}/file}}}}\nstore: {{kind: sqlite, path: {tmp_path}}}\n{ROUTE.replace('log', 'a')}"
    errors = [each for each in lint_text(text, minimal=False) if each.startswith("error")]
    assert [each.partition(" Cure")[0] for each in errors] == [
        "error brokers.a.path: The path names a file, but an embedded log needs a folder.",
        "error store.path: The path names a folder, but the store needs a file.",
    ]


def test_a_place_that_is_emptied_is_a_warning(lint_text: Lint) -> None:
    """What is acknowledged must outlive a restart of the machine."""
    text = f"version: 1\nbrokers: {{log: {{kind: embedded, path: /dev/shm/log}}}}\nstore: {{kind: sqlite, path: /tmp/s.db}}\n{ROUTE}"
    assert [each.partition(":")[0] for each in lint_text(text, minimal=False)] == [
        "warning brokers.log.path",
        "warning store.path",
    ]


@pytest.mark.parametrize(
    ("servers", "tls", "warned"),
    [
        ("'kafka:9092'", "", True),
        ("'127.0.0.1:9092,kafka:9092'", "", True),
        ("'127.0.0.1:9092'", "", False),
        ("'kafka:9092'", ", tls: {}", False),
    ],
)
def test_a_password_in_clear_is_a_warning(
    lint_text: Lint, servers: str, tls: str, warned: bool
) -> None:
    """PLAIN without TLS shows it to everybody on the way."""
    security = f"{{sasl: {{mechanism: PLAIN, username: u, password: p}}{tls}}}"
    found = lint_text(kafka(bootstrap_servers=servers, security=security) + ROUTE, minimal=False)
    assert any("crosses the network without TLS" in each for each in found) is warned


# --- form


def test_findings_come_in_the_order_of_the_file_with_their_lines(load_text: Load) -> None:
    """A person goes through the file from the top."""
    text = "subscriptions:\n  - id: s\n    source: {broker: log, topics: [t]}\n    sink: http://x.example/\nroutes:\n  - name: r\n    to: {broker: lgo, topic: t}\n"
    found = lint(load_text(text, minimal=True))
    assert [(each.line, each.level) for each in found] == [
        (7, "warning"),
        (8, "error"),
        (11, "error"),
    ]


def test_a_finding_of_an_override_names_the_variable(load_text: Load) -> None:
    """There is no line to go to."""
    loaded = load_text(ROUTE, {"SKYBRIDGE_SERVER__ADMIN__HOST": "0.0.0.0"}, minimal=True)
    (found,) = lint(loaded)
    assert str(found).startswith("SKYBRIDGE_SERVER__ADMIN__HOST: error server.admin.host:")


def test_bodies_under_way_have_room_for_one_at_least(lint_text: Lint) -> None:
    """Otherwise a large event would be answered 503 for ever."""
    (finding,) = lint_text(ROUTE + "limits: {body: 8MiB, receiving: 4MiB}\n")
    assert finding.startswith(
        "error limits.receiving: The limit limits.receiving is below limits.body"
    )


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("limits: {in_flight_records: 999}", "limits.in_flight_records: The limit is below limits.max_batch, which is 1000. A request of that size is always refused. Cure: Raise this limit to several times limits.max_batch, or lower limits.max_batch."),
        ("limits: {in_flight_bytes: 2MiB, body: 4MiB}", "limits.in_flight_bytes: The limit is below limits.body, which is 4194304. A request of that size is always refused. Cure: Raise this limit to several times limits.body, or lower limits.body."),
        ("limits: {in_flight_records: 1000, in_flight_bytes: 1MiB}", ""),
        ("limits: {in_flight_records: 10, max_batch: 10}", ""),
    ],
)  # fmt: skip
def test_a_bound_in_flight_below_one_request_is_told(
    lint_text: Lint, text: str, start: str
) -> None:
    """A full batch was answered 503 and Retry-After for ever, by a broker that is idle."""
    found = lint_text(f"{ROUTE}{text}\n")
    assert [each.partition(": a request")[0] for each in found] == (
        [f"warning {start}"] if start else []
    )


def test_a_bound_of_one_broker_below_one_request_is_told(lint_text: Lint) -> None:
    text = f"{MINIMAL_BROKER}routes: []\n"
    found = [each for each in lint_text(text, minimal=False) if "in_flight" in each]
    assert [each.partition(": The limit is below the ")[0] for each in found] == [
        "warning brokers.log.in_flight.records: The limit is below limits.max_batch, which is 1000. A request of that size is always refused. Cure: Raise this limit to several times limits.max_batch, or lower limits.max_batch."
    ]


def test_a_format_without_documents_has_no_effect(lint_text: Lint) -> None:
    """Who writes format: avro wants Avro documents, and gets none in binary mode."""
    found = lint_text(ROUTE.replace("to:", "format: avro, to:") + subscription(format="protobuf"))
    assert len(found) == 2
    assert (
        "warning routes[0].format: The setting format has no effect, because content_mode: binary writes no event as a document"
        in found[0]
    )
    assert (
        "warning subscriptions[0].format: The setting format has no effect, because content_mode: binary writes no event as a document"
        in found[1]
    )
    both = ROUTE.replace("to:", "content_mode: structured, format: avro, to:")
    assert lint_text(both + subscription(content_mode="structured", format="protobuf")) == []


@pytest.mark.parametrize("name", ["protobuf", "avro"])
@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
@pytest.mark.parametrize("mode", ["structured", "as_received"])
def test_a_format_that_has_no_such_version_is_an_error(
    lint_text: Lint, name: str, version: str, mode: str
) -> None:
    """Protobuf and Avro came with 1.0: every document would be 422, or a dead letter."""
    asked = {"content_mode": mode, "format": name, "specversion": f'"{version}"'}
    inside = ", ".join(f"{setting}: {value}" for setting, value in asked.items())
    cure = 'Cure: Set specversion: "1.0", or format: json.'
    reason = f"The format {name} does not support CloudEvents {version}. {cure}"

    assert lint_text(ROUTE.replace("to:", f"{inside}, to:") + subscription(**asked)) == [
        f"error routes[0].specversion: {reason}",
        f"error subscriptions[0].specversion: {reason}",
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {"format": "protobuf", "specversion": "as_received"},
        {"format": "avro", "specversion": '"1.0"'},
        {"format": "json", "specversion": '"0.1"'},
        {"format": "as_received", "specversion": '"0.3"'},
    ],
)
def test_a_format_that_may_hold_the_version_is_no_finding(
    lint_text: Lint, asked: dict[str, str]
) -> None:
    """Where all senders speak 1.0 nothing is lost; who has others reads of it in the guide."""
    assert lint_text(ROUTE + subscription(content_mode="structured", **asked)) == []


def test_a_format_that_is_not_installed_refuses_the_start(
    lint_text: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every event would be answered 415, one by one."""
    monkeypatch.setitem(sys.modules, "fastavro", None)
    avro_schema._schema.cache_clear()
    (found,) = lint_text(ROUTE.replace("to:", "content_mode: structured, format: avro, to:"))
    assert "error routes[0].format" in found
    assert "extra formats" in found


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("host", "requested host"), ("authorization", "credential"), ("content-length", "body"),
        ("transfer-encoding", "connection"), ("ce-id", "belongs to the event"), ("X-Team", "lower case"),
        ("a b", "header name"), ("x-*", "whole header names"),
    ],
)  # fmt: skip
def test_a_header_that_is_never_passed_along_is_refused_with_the_reason(
    refusal: Callable[..., list[Finding]], name: str, why: str
) -> None:
    """I3: hop-by-hop fields, credentials and what is of the body or the event."""
    text = ROUTE + f"server: {{events: {{forward_headers: ['{name}']}}}}\n"
    (found,) = refusal(text, minimal=True)
    assert found.setting == "server.events.forward_headers[0]"
    assert why in found.message


def test_a_subscription_may_name_the_beginning_of_headers(lint_text: Lint) -> None:
    assert lint_text(ROUTE + subscription(forward_headers="['x-*', '*', traceparent]")) == []


# --- routes that look at data, and routes that store an event once


def routed(*routes: str) -> str:
    return f"routes: [{', '.join(f'{{{route}}}' for route in routes)}]\n"


LOGGED = "to: {broker: log, topic: t}, key: {mapper: attribute, attribute: id}"


@pytest.mark.parametrize(
    ("schema", "setting", "message"),
    [
        (
            "{file: /srv/none.json}",
            "schema",
            "The file /srv/none.json cannot be read: No such file",
        ),
        ("{file: DRAFT7}", "schema.file", "is for http://json-schema.org/draft-07/schema"),
        (
            "{dataschema: {'urn:a': OPEN, 'urn:b': DRAFT7}}",
            "schema.dataschema.urn:b",
            "is for http",
        ),
        (
            "{file: OPEN, on_invalid: {route: nobody}}",
            "schema.on_invalid.route",
            "The route",
        ),
        (
            "{file: OPEN, on_invalid: {route: r}}",
            "schema.on_invalid.route",
            "The route 'r' for invalid events has a schema too",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_is_an_error(
    lint_text: Lint, tmp_path: Path, schema: str, setting: str, message: str
) -> None:
    """``skybridge check`` compiles every schema."""
    (tmp_path / "open.json").write_text("true")
    (tmp_path / "old.json").write_text('{"$schema": "http://json-schema.org/draft-07/schema#"}')
    schema = schema.replace("OPEN", f"{tmp_path}/open.json").replace(
        "DRAFT7", f"{tmp_path}/old.json"
    )
    (found,) = lint_text(routed(f"name: r, {LOGGED}, schema: {schema}"))
    assert found.startswith(f"error routes[0].{setting}: ")
    assert message in found


def test_schemas_that_can_be_used_have_no_findings(lint_text: Lint, tmp_path: Path) -> None:
    (tmp_path / "open.json").write_text("true")
    schema = f"schema: {{file: {tmp_path}/open.json, on_invalid: {{route: odd}}}}"
    orders = f"name: orders, filters: [{{exact: {{type: o}}}}], {LOGGED}, {schema}"
    assert lint_text(routed(orders, f"name: odd, {LOGGED}")) == []


def test_deduplicate_in_memory_alone_is_a_warning(lint_text: Lint) -> None:
    """The embedded log remembers through a restart; no other broker can."""
    assert lint_text(routed(f"name: r, {LOGGED}, deduplicate: {{window: 10m}}")) == []
    route = "name: r, to: {broker: main, topic: t}, deduplicate: {window: 10m}"
    found = lint_text(kafka() + routed(route), minimal=False)
    (found,) = [each for each in found if "deduplicate" in each]
    assert found.startswith(
        "warning routes[0].deduplicate: The deduplication window for 'main' is in the memory"
    )


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ('{position: {0: "-5"}}', "'-5' is not an offset"),
        (
            '{position: {0: "99999999999999999999999"}}',
            "is not an offset, which is 0 to 9223372036854775807",
        ),
        ("{position: {0: 9223372036854775808}}", "is not an offset"),
        ('{position: {0: "1:2"}}', "'1:2' is not an offset"),
        ('{position: {99999999999999999999: "1"}}', "is not the number of a partition"),
    ],
)
def test_a_start_that_no_log_can_have_is_an_error(lint_text: Lint, start: str, reason: str) -> None:
    (found,) = lint_text(ROUTE + subscription(start=start))
    assert found.startswith("error subscriptions[0].start.position")
    assert reason in found


def test_a_start_that_a_log_may_have_is_sound(lint_text: Lint) -> None:
    assert lint_text(ROUTE + subscription(start="{position: {0: 9223372036854775807}}")) == []


def test_a_topic_that_is_listed_twice_is_told(lint_text: Lint) -> None:
    found = lint_text(ROUTE + subscription(source="{broker: log, topics: [t, t]}"))
    assert found == [
        "warning subscriptions[0].source.topics[1]: The topic 't' is listed already, so this entry has no effect. Cure: Remove the entry."
    ]

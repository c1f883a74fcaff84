"""Brokers in the configuration: what each kind takes, what lint says of it, what stays secret."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.load.finding import Finding
from app.config.load.loader import Loaded
from app.config.model.config import Config

Lint = Callable[..., list[str]]
Load = Callable[..., Loaded]
Refusal = Callable[..., list[Finding]]

KAFKA = "kind: kafka, bootstrap_servers: '127.0.0.1:9092', topics: {create: true}"
RABBIT = "kind: rabbitmq, addresses: '127.0.0.1:5672', topics: {create: true}"
PULSAR = (
    "kind: pulsar, service_url: 'pulsar://127.0.0.1:6650', admin_url: 'http://127.0.0.1:8080', "
    "topics: {create: true}"
)
CANARY = "canary-5f1c"
ROUTE = "routes: [{name: r, to: {broker: main, topic: t}, key: {mapper: attribute, attribute: id}}]"


def document(broker: str, rest: str = ROUTE) -> str:
    return (
        "version: 1\nstore: {kind: sqlite, path: /srv/s.db}\n"
        f"brokers: {{log: {{kind: embedded, path: /srv/l}}, main: {{{broker}}}}}\n{rest}\n"
    )


@pytest.mark.parametrize("broker", [KAFKA, RABBIT, PULSAR])
def test_the_least_that_must_be_said_lints_clean(lint_text: Lint, broker: str) -> None:
    """Defaults are what most people want."""
    assert lint_text(document(broker), minimal=False) == []


@pytest.mark.parametrize(
    ("broker", "setting", "words"),
    [
        (f"{KAFKA}, security: {{sasl: {{mechanism: PLAIN, username: u}}}}", "security.sasl",
         "The mechanism PLAIN needs username and password"),
        (f"{KAFKA}, security: {{sasl: {{mechanism: OAUTHBEARER}}}}", "security.sasl",
         "The mechanism OAUTHBEARER needs a token"),
        (f"{KAFKA}, security: {{sasl: {{mechanism: OAUTHBEARER, token: x, token_file: y}}}}",
         "security.sasl", "The mechanism OAUTHBEARER needs a token"),
        (f"{KAFKA}, security: {{sasl: {{mechanism: OAUTHBEARER, token: x, username: u}}}}",
         "security.sasl", "The mechanism OAUTHBEARER has no username and password"),
        (f"{KAFKA}, security: {{sasl: {{mechanism: PLAIN, username: u, password: p, token: x}}}}",
         "security.sasl", "The setting token is only for the mechanism OAUTHBEARER"),
        (PULSAR.replace(":6650", ":0"), "service_url", "The port 0 does not exist"),
        (PULSAR.replace(":6650", ":6650,b:70000"), "service_url", "The port 70000 does not exist"),
        (PULSAR.replace(":8080", ":0"), "admin_url", "The port 0 does not exist"),
        (f"{PULSAR}, client_id: ''", "client_id", "The value is empty"),
        (f"{KAFKA}, session_timeout: 10ms", "session_timeout", "is below 1"),
        (f"{KAFKA}, instance_id: 'a b'", "instance_id", "The value has the wrong form"),
        (f"{RABBIT}, security: {{mechanism: EXTERNAL}}", "security",
         "The mechanism EXTERNAL needs tls with cert and key"),
        (f"{RABBIT}, security: {{mechanism: EXTERNAL, username: u, tls: {{cert: c, key: k}}}}",
         "security", "The mechanism EXTERNAL has no username and password"),
        (f"{RABBIT}, queue: '{{topic}}'", "queue", "The value has the wrong form"),
        ("kind: rabbitmq, addresses: 'h:5672, i'", "addresses", "The value has the wrong form"),
        (f"{PULSAR}, security: {{token: x, oauth2: {{issuer_url: 'https://i', credentials: c}}}}",
         "security", "The settings token and oauth2 exclude each other"),
        ("kind: pulsar, service_url: 'kafka://h', admin_url: 'http://h'", "service_url",
         "The value has the wrong form"),
        ("kind: pulsar, service_url: 'pulsar://h:6650', admin_url: 'h:8080'", "admin_url",
         "The value has the wrong form"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_with_its_setting(
    refusal: Refusal, broker: str, setting: str, words: str
) -> None:
    """At the desk, not by a broker that says no at night."""
    (finding,) = refusal(document(broker))
    assert finding.setting == f"brokers.main.{setting}"
    assert words in finding.message


@pytest.mark.parametrize(
    ("broker", "finding"),
    [
        ("kind: rabbitmq, addresses: 'r:5672', topics: {create: true}",
         "warning brokers.main.security: The password or token crosses the network without TLS"),
        ("kind: rabbitmq, addresses: 'r:5672', topics: {create: true}, security: {tls: {}}",
         "warning brokers.main.security: The user name is guest. RabbitMQ accepts this user only from its own machine"),
        (f"{RABBIT}, queue_type: stream, queue: 't.{{group}}.{{partition}}'",
         "error brokers.main.queue: The queue name contains {group}, but all groups read the same queues of a stream"),
        (f"{RABBIT}, security: {{tls: {{ca: /no/ca}}}}",
         "error brokers.main.security.tls.ca: The file does not exist on this machine"),
        (("kind: pulsar, service_url: 'pulsar://p:6650', admin_url: 'https://p', "
         "topics: {create: true}, security: {token: x}"),
         "warning brokers.main.service_url: The password or token crosses the network without TLS"),
        (f"{PULSAR}, security: {{tls: {{}}}}",
         "error brokers.main.security.tls: The section tls has no effect, because neither service_url nor admin_url uses TLS"),
        (f"{PULSAR}, security: {{oauth2: {{issuer_url: 'http://i', credentials: /no/file}}}}",
         "error brokers.main.security.oauth2.credentials: The file does not exist on this machine"),
        ((f"{KAFKA}, security: {{sasl: {{mechanism: OAUTHBEARER, oauth: {{token_endpoint: "
         "'http://i/t', client_id: c, client_secret: s}}}"),
         "warning brokers.main.security.sasl.oauth.token_endpoint: The client secret crosses the network without TLS"),
        (f"{KAFKA}, security: {{sasl: {{mechanism: OAUTHBEARER, token_file: /no/token}}}}",
         "error brokers.main.security.sasl.token_file: The file does not exist on this machine"),
    ],
)  # fmt: skip
def test_lint_tells_what_will_not_work_or_is_not_safe(
    lint_text: Lint, broker: str, finding: str
) -> None:
    """Each with its cure behind it."""
    found = lint_text(document(broker), minimal=False)
    assert [each for each in found if each.startswith(finding) and "Cure: " in each], found


TO_EXCHANGE = "routes: [{name: r, to: {broker: main, exchange: %s, routing_key: '%s'}}]"


@pytest.mark.parametrize(
    ("broker", "rest", "finding"),
    [
        (KAFKA, TO_EXCHANGE % ("x", "k"), "error routes[0].to.exchange: The broker 'main' is of kind kafka"),
        (RABBIT, TO_EXCHANGE % ("'a:b'", "k"), "error routes[0].to.exchange: The value has a colon"),
        (RABBIT, TO_EXCHANGE % ("x", "{Type}"), "error routes[0].to.routing_key: unknown placeholder"),
        (RABBIT, "routes: [{name: r, to: {broker: main, topic: 'queue:'}}]",
         "error routes[0].to.topic: The value names no queue"),
        (KAFKA, "routes: [{name: r, to: {broker: main, topic: 'queue:x'}}]",
         "error routes[0].to.topic: The value is not a topic name"),
        (KAFKA, "routes: [{name: r, to: {broker: log, topic: t}, durability: relaxed}]",
         "error routes[0].durability: The setting durability: relaxed is only for Kafka, and "),
        (KAFKA, ("routes: [{name: a, to: {broker: main, topic: t}, durability: relaxed}, "
         "{name: b, to: {broker: main, topic: t}}]"),
         "error routes[1].to.topic: The route 'a' writes to the same topic with another durability"),
        (KAFKA, ("routes: [{name: a, to: {broker: main, topic: 'o.{type}'}, durability: relaxed}, "
         "{name: b, to: {broker: main, topic: o.x}, durability: relaxed, acks: 0}]"),
         "error routes[1].to.topic: The route 'a' writes to the same topic with another durability"),
    ],
)  # fmt: skip
def test_a_target_that_its_broker_cannot_have_is_refused(
    lint_text: Lint, broker: str, rest: str, finding: str
) -> None:
    """Rule 1 among them: who reads a topic must know what its events are worth."""
    found = lint_text(document(broker, rest), minimal=False)
    assert [each for each in found if each.startswith(finding)], found


def test_relaxed_routes_to_other_topics_are_nobody_elses_business(lint_text: Lint) -> None:
    """``audit`` may be worth less than ``orders``."""
    rest = (
        "routes: [{name: a, filters: [{exact: {type: a}}], to: {broker: main, topic: 'a.{type}'}, "
        "durability: relaxed}, {name: b, to: {broker: main, topic: 'b.{type}'}}]"
    )
    assert lint_text(document(KAFKA, rest), minimal=False) == []


def test_acks_without_relaxed_are_refused(refusal: Refusal) -> None:
    """Whoever gives up the guarantee says so in words (rule 1)."""
    rest = "routes: [{name: a, to: {broker: main, topic: t}, acks: 1}]"
    (finding,) = refusal(document(KAFKA, rest))
    assert "may lose events" in finding.message


READS = (
    "subscriptions: [{{id: a, source: {{broker: main, topics: ['{topic}']}}, "
    "sink: 'https://a.example/', start: {start}}}, "
    "{{id: b, source: {{broker: main, topics: ['{topic}']}}, sink: 'https://b.example/'}}]"
)


@pytest.mark.parametrize(
    ("broker", "topic", "start", "finding"),
    [
        (
            RABBIT,
            "t",
            "latest",
            "warning subscriptions[1].source.topics[0]: The topic 't' is read by 'b' and 'a' from the same queues",
        ),
        (
            RABBIT,
            "queue:q",
            "latest",
            "warning subscriptions[1].source.topics[0]: The topic 'queue:q' is read by 'b' and 'a' from the same queues",
        ),
        (
            RABBIT,
            "t",
            "{time: '2026-01-01T00:00:00Z'}",
            "error subscriptions[0].start: The start is a time or a position, but a RabbitMQ queue has neither times nor positions",
        ),
        (
            RABBIT,
            "t",
            "{position: {0: 1}}",
            "error subscriptions[0].start: The start is a time or a position, but a RabbitMQ queue has neither times nor positions",
        ),
        (
            KAFKA,
            "queue:q",
            "latest",
            "error subscriptions[0].source.topics[0]: The value is not a topic name",
        ),
    ],
)
def test_what_a_queue_cannot_give_is_said(
    lint_text: Lint, broker: str, topic: str, start: str, finding: str
) -> None:
    """RabbitMQ's queues have no past and no positions, and share out what is in them."""
    rest = f"{ROUTE}\n{READS.format(topic=topic, start=start)}"
    found = lint_text(document(broker, rest), minimal=False)
    assert [each for each in found if each.startswith(finding)], found


def of_the_store(finding: str) -> bool:
    """What SQLite costs beside a broker; not what these tests are about."""
    return (
        "warning store.path: The store file has the only copy of the parked events and dead letters of "
        in finding
    )


def test_queues_of_their_own_and_full_names_are_no_finding(lint_text: Lint) -> None:
    """``{group}`` in the queue's name, and Pulsar's tenant and namespace."""
    rest = f"{ROUTE}\n{READS.format(topic='t', start='latest')}"
    own = f"{RABBIT}, queue: '{{topic}}.{{group}}.{{partition}}'"
    assert list(map(of_the_store, lint_text(document(own, rest), minimal=False))) == [True]
    full = "persistent://a/b/t"
    rest = f"{ROUTE.replace('topic: t', f'topic: {full!r}')}\n{READS.format(topic=full, start='latest')}"
    assert list(map(of_the_store, lint_text(document(PULSAR, rest), minimal=False))) == [True]


SECRETS = [
    f"{KAFKA}, security: {{sasl: {{mechanism: PLAIN, username: u, password: {CANARY}}}}}",
    f"{KAFKA}, security: {{sasl: {{mechanism: OAUTHBEARER, token: {CANARY}}}}}",
    (
        f"{KAFKA}, security: {{sasl: {{mechanism: OAUTHBEARER, oauth: {{token_endpoint: 'https://i/', "
        f"client_id: c, client_secret: {CANARY}}}}}}}"
    ),
    f"{RABBIT}, security: {{username: u, password: {CANARY}}}",
    f"{PULSAR}, security: {{token: {CANARY}}}",
]


@pytest.mark.parametrize("broker", SECRETS)
def test_secrets_of_brokers_are_in_no_text(load_text: Load, broker: str) -> None:
    """Neither in what a configuration shows of itself, nor in what the drivers made of it do."""
    from app.features.brokers.logs import open_logs

    config: Config = load_text(document(broker)).config
    log = open_logs(config)["main"]
    shown = [repr(config), config.model_dump_json(), repr(log.driver._settings)]
    assert not [text for text in shown if CANARY in text]


def test_an_address_with_a_password_in_it_is_refused_without_repeating_it(
    refusal: Refusal,
) -> None:
    """Addresses end up in logs."""
    for broker in (
        f"kind: rabbitmq, addresses: 'amqp://u:{CANARY}@h:5672'",
        f"kind: pulsar, service_url: 'pulsar://u:{CANARY}@h:1', admin_url: 'http://u:{CANARY}@h'",
    ):
        assert not [each for each in refusal(document(broker)) if CANARY in str(each)]


def test_a_token_from_a_file_is_read_like_any_reference(load_text: Load, tmp_path: Path) -> None:
    """``${file:...}``, as Kubernetes mounts secrets."""
    file = tmp_path / "token"
    file.write_text("jwt\n")
    loaded = load_text(document(f"{PULSAR}, security: {{token: '${{file:{file}}}'}}"))
    broker = loaded.config.brokers["main"]
    assert broker.security.token.get_secret_value() == "jwt"  # type: ignore[union-attr]


@pytest.mark.parametrize("dsn", [f"postgresql://u:{CANARY}@h:x y/d", f"{CANARY} is no dsn"])
def test_a_connection_string_is_never_repeated(refusal: Refusal, dsn: str) -> None:
    """It holds a password; what is wrong with it is said all the same."""
    text = document(KAFKA, ROUTE).replace(
        "store: {kind: sqlite, path: /srv/s.db}", f"store: {{kind: postgresql, dsn: {dsn!r}}}"
    )
    (found,) = map(str, refusal(text))
    assert "store.dsn: The value is not a PostgreSQL connection string" in found
    assert CANARY not in found


def test_a_shared_store_costs_nothing_when_a_volume_is_lost(lint_text: Lint) -> None:
    """What the warning of SQLite beside a broker tells people to do is no finding itself."""
    text = document(KAFKA, f"{ROUTE}\n{READS.format(topic='t', start='latest')}").replace(
        "store: {kind: sqlite, path: /srv/s.db}",
        "store: {kind: postgresql, dsn: 'postgresql://h/d'}",
    )
    assert not [found for found in lint_text(text, minimal=False) if "store" in found]


def test_no_setting_of_a_broker_is_ignored_in_silence(lint_text: Lint) -> None:
    uncreated = KAFKA.replace("{create: true}", "{partitions: 8, replication: 3}")
    found = [each.partition(". Cure")[0] for each in lint_text(document(uncreated), minimal=False)]
    assert found[:2] == [
        f"warning brokers.main.topics.{each}: The setting {each} has no effect, because Skybridge creates no topics"
        for each in ("partitions", "replication")
    ]


@pytest.mark.parametrize(
    ("broker", "cure"),
    [
        (f"{KAFKA}, path: /srv/l", "Use one of: bootstrap_servers, client_id, "),
        (f"{RABBIT}, bootstrap_servers: 'a:1'", "Use one of: addresses, "),
        (KAFKA.replace("create: true", "partition: 3"), "Did you mean partitions?"),
    ],
)
def test_an_unknown_setting_is_compared_with_those_of_its_kind(
    refusal: Refusal, broker: str, cure: str
) -> None:
    """`path` of a Kafka broker was answered "Did you mean path?"."""
    (finding,) = refusal(document(broker))
    assert finding.message == "The setting is unknown."
    assert finding.cure.startswith(cure)


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        (
            "store: {kind: sqlite, path: /srv/s.db, dsn: x}",
            "Use one of: attempts, audit, dead_letters, encryption, kind, path.",
        ),
        (
            "routes: [{name: r, to: {broker: main, topic: t, exchange: e, routing_key: k}}]",
            "Use one of: broker, exchange, routing_key.",
        ),
    ],
)
def test_an_unknown_setting_is_compared_with_those_of_its_form(
    refusal: Refusal, text: str, cure: str
) -> None:
    known = document(RABBIT, "").splitlines()
    head = [line for line in known if not text.startswith(line.partition(" ")[0])]
    (finding,) = refusal("\n".join([*head, text]))
    assert (finding.message, finding.cure) == ("The setting is unknown.", cure)


@pytest.mark.parametrize("servers", ["127.0.0.1:0", "127.0.0.1:9092,127.0.0.1:99999"])
def test_a_port_that_does_not_exist_is_an_error(refusal: Refusal, servers: str) -> None:
    (finding,) = refusal(document(KAFKA.replace("127.0.0.1:9092", servers)))
    assert (finding.setting, finding.cure) == (
        "brokers.main.bootstrap_servers",
        "Write a port from 1 to 65535.",
    )

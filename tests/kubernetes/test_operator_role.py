"""The role ``operator`` as a process, on an API server in memory and on a real one: the same tests."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_server import ApiServer, api_server
from kubernetes_rest import Rest
from pod_load import signer

import chart
from app.kubernetes import paths
from app.kubernetes.names import DRAIN_FINALIZER, OWNER
from app.store.encryption import new_key
from configuration import configuration, subscription, written
from free_ports import free_ports
from kafka_install import Missing
from kubernetes_fake import FakeApiServer
from service_process import ServeProcess, ServiceProcess
from waiting import until
from webhook_target import Received, WebhookTarget, status

TEAM, OTHER, GONE = "team-billing", "team-stock", "team-gone"
ADMIN, KUBERNETES = "token-of-the-administrator", "token-of-the-operator"
SECRETS = (
    "whsec_Zmlyc3Qtc2VjcmV0LW9mLXRoZS10ZXN0cw==",
    "whsec_c2Vjb25kLXNlY3JldC1vZi10aGUtdGVzdHM=",
)
AUTHORIZED = {"authorization": f"Bearer {ADMIN}"}
LEASE = {"name": "bridge-skybridge-operator", "namespace": TEAM, "seconds": 5}


class Cluster:
    """An API server with three namespaces, as the tests and the operator reach it."""

    def __init__(self, rest: Rest, kubeconfig: Path, server: FakeApiServer | ApiServer) -> None:
        self.rest, self.kubeconfig, self.server = rest, kubeconfig, server


@contextlib.contextmanager
def _fake(folder: Path) -> Iterator[Cluster]:
    server = FakeApiServer()
    server.start()
    try:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(server.client()))
        yield Cluster(Rest(server.url, None), kubeconfig, server)
    finally:
        server.kill()


@contextlib.contextmanager
def _real(_: Path) -> Iterator[Cluster]:
    """Run the real server. The operator has the rights that the chart gives it."""
    user = "system:serviceaccount:skybridge:operator"
    with api_server() as server:
        server.add_definition(chart.documents(chart.DEFINITION.read_text())[0])
        for each in (TEAM, OTHER, GONE):
            server.add_namespace(each)
            server.grant(user, _rules("Role"), each)
        server.grant(user, _rules("ClusterRole", "bridge-skybridge-operator"))
        server.start_controllers()
        server.wait_until_may(user, "watch", f"{paths.PLURAL}.{paths.GROUP}", "-n", GONE)
        trust = ssl.create_default_context(cafile=server.authority.path("ca.crt"))
        trust.load_cert_chain(
            server.authority.path("user0.crt"), server.authority.path("user0.key")
        )
        yield Cluster(Rest(server.url, trust), server.kubeconfig(user), server)


def _rules(kind: str, end: str = "") -> list[dict[str, Any]]:
    """Return the rules of the Roles that the chart renders, or of the ClusterRole whose name has this end.

    They name the Lease of the chart, and so does the operator of the tests.
    """
    roles = chart.of_kind(chart.rendered(chart.case("kafka-operator")), kind)
    return [
        rule for role in roles if role["metadata"]["name"].endswith(end) for rule in role["rules"]
    ]


@pytest.fixture(scope="module", params=["memory", pytest.param("real", marks=pytest.mark.nightly)])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    start = {"memory": _fake, "real": _real}[request.param]
    try:
        with start(tmp_path_factory.mktemp("api")) as running:
            yield running
    except Missing as why:
        pytest.skip(str(why))


class Bridge:
    """A service, and operator processes that write into it."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        token = {
            "name": OWNER,
            "token": KUBERNETES,
            "owner": OWNER,
            "scopes": ["read", "configure"],
        }
        taken = subscription(f"{TEAM}.taken", "http://127.0.0.1:9/")
        self.folder, self._kubeconfig, self._count = folder, cluster.kubeconfig, 0
        self.first: ServeProcess
        self.service = ServiceProcess(
            configuration(
                folder,
                server={"admin": {"token": ADMIN, "tokens": [token]}},
                store={"encryption": {"key": new_key()}},
                webhooks={"allow_private": ["127.0.0.0/8", "*.svc"]},
                subscriptions=[taken],
            ),
            folder,
        )

    def operator(self, lease_in: str = TEAM) -> ServeProcess:
        """Start an operator process with a Lease in this namespace, and return when it is ready."""
        self._count += 1
        folder = self.folder / f"operator{self._count}"
        folder.mkdir()
        (port,) = free_ports(1)
        hosts = {
            "name": TEAM,
            "topics": ["events"],
            "reply_routes": ["all"],
            "hosts": ["127.0.0.1"],
        }
        section = {
            "namespaces": [
                hosts,
                *({"name": each, "topics": ["of-others"]} for each in (OTHER, GONE)),
            ],
            "lease": {**LEASE, "namespace": lease_in},
            "drain_timeout": "60s",
            "admin": {"url": self.service.admin_url, "token": KUBERNETES},
        }
        server = {**self.service.settings["server"]}
        server["admin"] = {**server["admin"], "port": port}
        file = written({**self.service.settings, "server": server, "operator": section}, folder)
        process = ServeProcess(file, folder, port)
        process.arguments[0] = "operator"
        process.start({"KUBECONFIG": str(self._kubeconfig), "HOSTNAME": f"operator{self._count}"})
        return process

    def shown(self, name: str) -> dict[str, Any] | None:
        """Return a subscription as the admin API lists it, or None."""
        _, text = self.service.ask("GET", "/v1/subscriptions", headers=AUTHORIZED)
        return next((each for each in json.loads(text) if each["id"] == name), None)


@pytest.fixture(scope="module")
def bridge(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    made = Bridge(tmp_path_factory.mktemp("bridge"), cluster)
    with made.service.ended():
        made.service.start()
        made.first = made.operator()
        try:
            yield made
        finally:
            if made.first.running:
                made.first.kill()


@pytest.fixture
async def target() -> AsyncIterator[WebhookTarget]:
    made = WebhookTarget()
    await made.start()
    yield made
    await made.stop()


def spec(target: WebhookTarget, **more: Any) -> dict[str, Any]:
    source = {"broker": "log", "topics": ["events"]}
    return {
        "source": source,
        "start": "latest",
        "sink": {"url": target.url},
        "handshake": "off",
        **more,
    }


def signing(name: str) -> dict[str, Any]:
    return {"secretRef": {"name": name, "key": "secret"}}


def is_signed(request: Received, secret: str) -> bool:
    """Return True if a secret made the signature of a delivery."""
    head = {name: value.decode() for name, value in request.headers}
    return signer([secret], head, request.body) == secret


async def until_signed(bridge: Bridge, target: WebhookTarget, secret: str) -> None:
    """Send events until a secret signs the newest delivery: workers take changes once a second."""
    numbers = iter(range(1000))

    async def signed() -> bool:
        before = len(target.received)
        bridge.service.send(f"next-{next(numbers)}")
        await until(lambda: len(target.received) > before)
        return is_signed(target.received[-1], secret)

    await until(signed, "another Secret signs", turn=0.1)


def condition(
    cluster: Cluster, name: str, kind: str = "Ready", namespace: str = TEAM
) -> dict[str, Any]:
    """Return a condition of an object, or {} until the operator has seen the object as it is now."""
    found = cluster.rest.ask("GET", paths.subscription(namespace, name))
    state = found.get("status", {})
    if state.get("observedGeneration") != found["metadata"]["generation"]:
        return {}
    return next((each for each in state["conditions"] if each["type"] == kind), {})


def is_ready(cluster: Cluster, name: str) -> Callable[[], bool]:
    return lambda: condition(cluster, name).get("status") == "True"


async def refused(cluster: Cluster, name: str, namespace: str = TEAM) -> dict[str, Any]:
    """Wait until an object is refused, and return its condition."""

    def found() -> Any:
        now = condition(cluster, name, namespace=namespace)
        return now if now.get("status") == "False" else None

    return await until(found, f"{name} is refused", turn=0.05)


async def test_an_object_becomes_a_subscription_that_delivers(cluster, bridge, target):
    """A change is in force, a Secret signs, and its next value signs without a change of the object (issue 46)."""
    cluster.rest.secret(TEAM, "hook", SECRETS[0])
    cluster.rest.subscription(TEAM, "billing", spec(target, signing=signing("hook")))
    await until(is_ready(cluster, "billing"), "billing is ready")
    shown = bridge.shown(f"{TEAM}.billing")
    assert shown["origin"] == OWNER
    assert SECRETS[0] not in json.dumps(shown)
    bridge.service.send("one")
    await until(lambda: target.received, "a delivery")
    assert is_signed(target.received[0], SECRETS[0])
    cluster.rest.secret(TEAM, "hook", SECRETS[1])
    await until_signed(bridge, target, SECRETS[1])
    await until(
        lambda: condition(cluster, "billing", "Delivering").get("status") == "True", "delivers"
    )
    cluster.rest.delete(paths.subscription(TEAM, "billing"))
    await until(
        lambda: bridge.shown(f"{TEAM}.billing")["document"].get("paused"),
        "the subscription is kept, paused",
    )


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("missing", {"signing": signing("nowhere")}, "SecretMissing"),
        ("unlabelled", {"signing": signing("unlabelled")}, "SecretMissing"),
        ("of-another", {"signing": signing("foreign")}, "SecretMissing"),
        ("topic", {"source": {"broker": "log", "topics": ["of-others"]}}, "NotAllowed"),
        ("written", {"sink": {"broker": "log", "topic": "of-others"}, "handshake": "ask"}, "NotAllowed"),
        ("host", {"sink": {"url": "https://hooks.example.com/"}}, "NotAllowed"),
        ("metadata", {"sink": {"url": "http://169.254.169.254/latest"}}, "NotAllowed"),
        ("elsewhere", {"sink": {"service": {"name": "elsewhere"}}}, "ServiceNotAllowed"),
        ("taken", {}, "IdTaken"),
    ],
)  # fmt: skip
async def test_a_tenant_is_refused_with_a_reason(cluster, bridge, target, name, change, reason):
    """The secret, topic, address or id of another becomes a condition, and no subscription (issue 46)."""
    cluster.rest.secret(TEAM, "unlabelled", SECRETS[0], labelled=False)
    cluster.rest.secret(OTHER, "foreign", SECRETS[0])
    outside = {"type": "ExternalName", "externalName": "example.com"}
    cluster.rest.put(
        paths.core(TEAM, "services"),
        "elsewhere",
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "elsewhere"}, "spec": outside},
        {},
    )
    before = bridge.shown(f"{TEAM}.{name}")
    cluster.rest.subscription(TEAM, name, {**spec(target), **change})
    found = await refused(cluster, name)
    assert found["reason"] == reason, found
    assert SECRETS[0] not in json.dumps(found)
    if reason == "IdTaken":  # both places
        assert f"{TEAM}/taken" in found["message"]
        assert f"{bridge.service.file}, line" in found["message"]
    after = bridge.shown(f"{TEAM}.{name}")
    assert (after is None) is (before is None)
    assert after is None or after["origin"] == "file"
    cluster.rest.delete(paths.subscription(TEAM, name))


@pytest.mark.nightly
async def test_an_object_with_drain_stays_until_its_events_are_delivered(cluster, bridge, target):
    """The finalizer is there from the start, and goes with the last event."""
    target.answer = lambda _: status(503)
    cluster.rest.subscription(
        TEAM, "drained", spec(target, onDelete="drain", retry={"schedule": ["200ms"] * 500})
    )
    await until(is_ready(cluster, "drained"), "drained is ready")
    path = paths.subscription(TEAM, "drained")
    assert cluster.rest.ask("GET", path)["metadata"]["finalizers"] == [DRAIN_FINALIZER]
    bridge.service.send("late")
    await until(lambda: target.received, "an attempt")
    cluster.rest.delete(path)
    await until(lambda: condition(cluster, "drained").get("reason") == "Draining", "draining")
    target.answer = lambda _: status(204)
    await until(lambda: not [
        each for each in cluster.rest.items(paths.subscriptions(TEAM)) if each["metadata"]["name"] == "drained"
    ], "the object is gone")  # fmt: skip
    assert bridge.shown(f"{TEAM}.drained") is None


async def test_an_event_of_the_object_says_why_nothing_is_delivered(cluster, bridge, target):
    """Also what is delivered late: dead letters (issue 46)."""
    target.answer = lambda one: status(410 if one.id == "gone" else 400)
    cluster.rest.subscription(TEAM, "told", spec(target))
    await until(is_ready(cluster, "told"), "told is ready")

    def told() -> set[str]:
        events = cluster.rest.items(paths.core(TEAM, "events"))
        return {each["reason"] for each in events if each["involvedObject"]["name"] == "told"}

    bridge.service.send("refused")
    await until(lambda: "DeadLetters" in told(), "an Event about a dead letter")
    bridge.service.send("gone")
    await until(lambda: "Disabled" in told(), "an Event about the endpoint")
    await until(
        lambda: condition(cluster, "told", "Delivering").get("reason") == "Disabled", "status"
    )
    found = cluster.rest.ask("GET", paths.subscription(TEAM, "told"))
    assert found["status"]["deadLetters"] == 1
    cluster.rest.delete(paths.subscription(TEAM, "told"))


async def test_text_of_an_object_is_no_reference_to_a_secret_of_the_service(
    cluster, bridge, target
):
    """References to variables and files belong to the configuration: here they are text, or refused."""
    for number, text in enumerate(("${env:HOME}", "${file:/etc/hostname}")):
        cluster.rest.subscription(TEAM, f"text{number}", spec(target, headers={"x-text": text}))
        await until(
            lambda name=f"text{number}": condition(cluster, name).get("reason"), "looked at"
        )
        bridge.service.send(f"text{number}")
        if condition(cluster, f"text{number}")["status"] == "True":
            await until(lambda: target.received, "a delivery")
            assert target.received[-1].header("x-text") == text
        cluster.rest.delete(paths.subscription(TEAM, f"text{number}"))


@pytest.mark.nightly
async def test_of_two_installations_that_list_a_namespace_one_has_an_object(
    cluster, bridge, target, tmp_path
):
    """The other one says so in an Event, and delivers nothing for the object (issue 46)."""
    cluster.rest.subscription(TEAM, "shared", spec(target))
    await until(is_ready(cluster, "shared"), "shared is ready")
    path, other = paths.subscription(TEAM, "shared"), Bridge(tmp_path, cluster)

    def events() -> set[str]:
        found = cluster.rest.items(paths.core(TEAM, "events"))
        return {each["reason"] for each in found if each["involvedObject"]["name"] == "shared"}

    with other.service.ended():
        other.service.start()
        with other.operator(OTHER).ended():
            await until(lambda: "OtherInstallation" in events(), "an Event")
            assert other.shown(f"{TEAM}.shared") is None
            found = cluster.rest.ask("GET", path)["status"]
            assert found["operator"] == f"{TEAM}/{LEASE['name']}"
            assert is_ready(cluster, "shared")()
    cluster.rest.delete(path)


@pytest.mark.nightly
async def test_a_withdrawn_secret_is_not_used_any_more(cluster, bridge, target):
    """Neither after its label was taken away nor after its deletion; its return ends the pause (issue 46)."""
    cluster.rest.secret(TEAM, "withdrawn", SECRETS[0])
    cluster.rest.subscription(TEAM, "signed", spec(target, signing=signing("withdrawn")))
    await until(is_ready(cluster, "signed"), "signed is ready")
    cluster.rest.secret(TEAM, "withdrawn", SECRETS[0], labelled=False)
    found = await refused(cluster, "signed")
    assert (found["reason"], "is paused" in found["message"]) == ("SecretMissing", True)
    shown = bridge.shown(f"{TEAM}.signed")
    assert shown["document"]["paused"] is True
    cluster.rest.secret(TEAM, "withdrawn", SECRETS[1])
    await until(is_ready(cluster, "signed"), "signed is ready again")
    await until_signed(bridge, target, SECRETS[1])
    cluster.rest.delete(paths.subscription(TEAM, "signed"))


@pytest.mark.nightly
async def test_a_deleted_namespace_is_gone_after_its_objects_have_drained(cluster, bridge, target):
    """It takes the Role of the operator with it, and must not wait for an operator without rights (issue 46)."""
    if isinstance(cluster.server, FakeApiServer):
        pytest.skip("the API server in memory has no namespaces")
    pull = {
        "source": {"broker": "log", "topics": ["of-others"]},
        "sink": {"pull": {}},
        "onDelete": "drain",
    }
    cluster.rest.subscription(GONE, "pulled", pull)
    await until(
        lambda: condition(cluster, "pulled", namespace=GONE).get("status") == "True", "ready"
    )
    cluster.rest.delete(f"/api/v1/namespaces/{GONE}")

    def spaces() -> list[str]:
        return [each["metadata"]["name"] for each in cluster.rest.items("/api/v1/namespaces")]

    await until(lambda: GONE not in spaces(), "the namespace is gone", within=100, turn=0.5)
    assert bridge.shown(f"{GONE}.pulled") is None


async def test_the_admin_api_changes_no_subscription_of_an_object(cluster, bridge, target):
    """One owner a subscription: the problem names the object."""
    cluster.rest.subscription(TEAM, "owned", spec(target))
    await until(is_ready(cluster, "owned"), "owned is ready")
    code, text = bridge.service.ask("DELETE", f"/v1/subscriptions/{TEAM}.owned", headers=AUTHORIZED)
    assert code == 409
    assert f"{TEAM}/owned" in text
    cluster.rest.delete(paths.subscription(TEAM, "owned"))


@pytest.mark.nightly
async def test_a_killed_leader_is_replaced_and_delivers_nothing_twice(cluster, bridge, target):
    """A second process waits for the Lease, and makes the next change."""
    bridge.first, killed = bridge.operator(), bridge.first
    cluster.rest.subscription(TEAM, "replaced", spec(target))
    await until(is_ready(cluster, "replaced"), "replaced is ready")
    bridge.service.send("before")
    await until(lambda: target.received, "a delivery")
    killed.kill()
    cluster.rest.subscription(TEAM, "replaced", spec(target, concurrency=7))
    await until(is_ready(cluster, "replaced"), "the change is in force")
    assert bridge.shown(f"{TEAM}.replaced")["document"]["concurrency"] == 7
    bridge.service.send("after")
    await until(lambda: len(target.received) >= 2, "the next delivery")
    assert target.ids == ["before", "after"]
    cluster.rest.delete(paths.subscription(TEAM, "replaced"))


@pytest.mark.nightly
async def test_deliveries_go_on_without_the_api_server(cluster, bridge, target):
    """A change that comes after it is in force."""
    cluster.rest.subscription(TEAM, "alone", spec(target))
    await until(is_ready(cluster, "alone"), "alone is ready")
    cluster.server.kill()
    try:
        bridge.service.send("meanwhile")
        await until(lambda: target.ids == ["meanwhile"], "a delivery")
    finally:
        cluster.server.start()
    cluster.rest.subscription(TEAM, "alone", spec(target, concurrency=9))
    await until(is_ready(cluster, "alone"), "the change is in force")
    assert bridge.shown(f"{TEAM}.alone")["document"]["concurrency"] == 9
    cluster.rest.delete(paths.subscription(TEAM, "alone"))

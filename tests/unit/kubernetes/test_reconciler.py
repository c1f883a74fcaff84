"""The work on one object: what is written, paused, kept and deleted, with an admin API in memory."""

import asyncio
from types import SimpleNamespace

import pytest

from app.config.model.operator import OperatorNamespace
from app.kubernetes.admin import AdminRefused, AdminUnavailable
from app.kubernetes.drain import Drain
from app.kubernetes.known import KnownSubscriptions
from app.kubernetes.names import DRAIN_FINALIZER, SECRET_LABEL, SECRET_USE
from app.kubernetes.namespace import Namespace
from app.kubernetes.reconciler import Reconciler
from app.kubernetes.rights import NamespaceRights
from app.kubernetes.status import delivering, differs, status_of
from app.kubernetes.writer import LeadLost
from app.model.secret import HIDDEN

HEALTH = {
    "state": "running", "cause": "", "paused_for": None, "last_error": "", "lag": 0,
    "dead_letters": {}, "parked": {"rows": 0},
}  # fmt: skip


class Admin:
    """The subscriptions by id, each with its ETag."""

    def __init__(self):
        self.entries, self.calls, self.parked = {}, [], False

    async def subscriptions(self):
        await asyncio.sleep(0)
        return {name: dict(each) for name, each in self.entries.items()}

    async def create(self, document):
        name = document["id"]
        if name in self.entries:
            owned = self.entries[name]["origin"] == "kubernetes"
            raise AdminRefused(409, "made-by-object" if owned else "id-taken", "it exists")
        return self._put("create", name, document)

    async def replace(self, name, document, etag):
        if self.entries[name]["etag"] != etag:
            raise AdminRefused(412, "precondition-failed", "other version")
        return self._put("replace", name, document)

    async def delete(self, name, etag):
        if self.entries[name]["etag"] != etag:
            raise AdminRefused(412, "precondition-failed", "other version")
        self.calls.append(("delete", name))
        self.entries.pop(name)

    async def has_parked(self, name):
        if self.parked is None:
            raise AdminUnavailable("the store does not answer")
        return self.parked

    def _put(self, call, name, document):
        self.calls.append((call, name))
        etag = str(len(self.calls))
        self.entries[name] = {
            "id": name, "origin": "kubernetes", "document": document, "etag": etag, "faults": [], "health": HEALTH,
        }  # fmt: skip
        return etag


class Reporter:
    def __init__(self):
        self.wanted, self.outcomes, self.foreign = asyncio.Event(), {}, []

    def forget(self, key):
        self.outcomes.pop(key, None)

    async def report_health(self, item, health):
        pass

    async def report_foreign(self, item):
        self.foreign.append(item["metadata"]["name"])

    async def report(self, item, outcome, health):
        self.outcomes["team", item["metadata"]["name"]] = outcome


class Cluster:
    def __init__(self):
        self.patches, self.operator = [], "skybridge/mine"

    async def patch(self, path, change):
        self.patches.append((path, change))

    async def get(self, path):
        assert path.endswith("/namespaces/team/subscriptions/a")
        status = {"operator": self.operator}
        return {**an_object(finalizers=["example.com/other", DRAIN_FINALIZER]), "status": status}


def an_object(name="a", *, url="https://a.example.com/", **metadata):
    named = {"namespace": "team", "name": name, "resourceVersion": "1", "generation": 1}
    source = {"broker": "main", "topics": ["orders"]}
    spec = {"source": source, "sink": {"url": url}}
    if "finalizers" in metadata:
        spec["onDelete"] = "drain"
    return {"metadata": {**named, **metadata}, "spec": spec}


class House:
    """A reconciler of one namespace, whose copies are complete."""

    def __init__(self, admin=None):
        self.admin, self.reporter, self.cluster = admin or Admin(), Reporter(), Cluster()
        rights = OperatorNamespace(name="team", topics=("orders",), hosts=("a.example.com",))
        self.place = Namespace(self.cluster, rights, lambda _: None, "skybridge/mine")
        self.objects = self.place.objects
        for each in (self.place._objects, self.place._secrets, self.place._services):
            each.complete = True
        self.now, self.unread = SimpleNamespace(at=0.0), False
        self.leads = True
        drain = Drain(self.cluster, SimpleNamespace(now=lambda: self.now.at), 60, "skybridge/mine")
        self.known = KnownSubscriptions(self.admin)
        self.work = Reconciler(
            self.admin,
            self.known,
            {"team": self.place},
            self.reporter,
            drain,
            lambda: self.leads,
            10_000,
        )

    async def look(self, name="a"):
        if not self.known.is_complete and not self.unread:
            await self.known.refresh()
        await self.work._look(("team", name))
        return self.reporter.outcomes.get(("team", name))


@pytest.fixture
def house():
    return House()


async def test_an_object_is_written_once_and_its_end_keeps_the_subscription(house):
    """With ``onDelete: keep``, nothing that waits is lost, and a new object goes on (issue 46)."""
    house.objects["a"] = an_object()
    assert (await house.look()).reason == "Accepted"
    assert (await house.look()).reason == "Accepted"
    house.objects["a"] = an_object(url="https://a.example.com/other")
    await house.look()
    del house.objects["a"]
    await house.look()
    await house.look()
    assert house.admin.entries["team.a"]["document"]["paused"] is True
    house.objects["a"] = an_object(url="https://a.example.com/other")
    await house.look()
    assert "paused" not in house.admin.entries["team.a"]["document"]
    assert [call for call, _ in house.admin.calls] == ["create", *["replace"] * 3]


async def test_a_wait_that_a_person_ends_deletes_the_subscription(house):
    house.objects["a"] = an_object()
    await house.look()
    deleted = {"deletionTimestamp": "1970-01-01T00:00:10Z", "finalizers": [DRAIN_FINALIZER]}
    house.objects["a"] = an_object(**deleted)
    assert (await house.look()).reason == "Draining"
    del house.objects["a"]
    await house.look()
    assert "team.a" not in house.admin.entries


async def test_before_the_copies_are_complete_nothing_is_paused(house):
    house.objects["a"] = an_object()
    await house.look()
    del house.objects["a"]
    house.place._objects.complete = False
    await house.look()
    await house.work.pause_orphans()
    assert "paused" not in house.admin.entries["team.a"]["document"]
    assert house.work.waiting == 0


async def test_a_namespace_that_may_not_be_read_is_a_condition(house):
    """It was created again, without the Role. Its objects would else show nothing, and nobody why (issue 46)."""
    secrets = house.place._secrets
    secrets.complete, secrets.is_forbidden, secrets.trouble = False, True, "secrets is forbidden"
    house.objects["a"] = an_object()
    outcome = await house.look()
    assert (outcome.reason, outcome.status) == ("NamespaceUnreadable", "Unknown")
    assert "secrets is forbidden" in outcome.message
    assert house.admin.calls == []
    secrets.complete = True
    assert (await house.look()).reason == "Accepted"


async def test_the_end_of_an_object_needs_no_secrets(house):
    """A namespace that ends has none any more, and must not hang on the finalizer."""
    house.place._secrets.complete = False
    deleted = {"deletionTimestamp": "1970-01-01T00:00:10Z", "finalizers": [DRAIN_FINALIZER]}
    house.objects["a"] = an_object(**deleted)
    await house.look()
    assert house.cluster.patches[-1][1]["metadata"]["finalizers"] == []


async def test_a_deleted_object_that_is_changed_to_keep_keeps_its_subscription(house):
    """Who no longer wants to wait, or to lose the subscription, changes onDelete (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    item = an_object(deletionTimestamp="1970-01-01T00:00:10Z", finalizers=[DRAIN_FINALIZER])
    house.objects["a"] = item
    assert (await house.look()).reason == "Draining"
    item["spec"]["onDelete"] = "keep"
    await house.look()
    assert house.cluster.patches[-1][1]["metadata"]["finalizers"] == []
    del house.objects["a"]
    await house.look()
    assert house.admin.entries["team.a"]["document"]["paused"] is True


@pytest.mark.parametrize("error", [AdminUnavailable("away"), AdminRefused(422, "x", "broken")])
async def test_a_deleted_object_that_is_changed_to_keep_waits_for_no_service(house, error):
    """Its namespace must never hang on a service that is away, or that refuses the pause (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    replace = house.admin.replace

    async def fail(*_):
        raise error

    house.admin.replace = fail
    item = an_object(deletionTimestamp="1970-01-01T00:00:10Z", finalizers=[DRAIN_FINALIZER])
    item["spec"]["onDelete"] = "keep"
    house.objects["a"] = item
    with pytest.raises(type(error)):
        await house.look()
    assert house.cluster.patches[-1][1]["metadata"]["finalizers"] == []
    house.admin.replace = replace
    del house.objects["a"]
    await house.look()
    assert house.admin.entries["team.a"]["document"]["paused"] is True


@pytest.mark.parametrize(("url", "waits"), [("https://a.example.com/", True), ("x", False)])
async def test_only_an_object_with_a_subscription_waits_for_its_events(house, url, waits):
    """A refused object has none. After its namespace is taken from the list, nothing would end its wait (issue 46)."""
    house.objects["a"] = an_object(url=url)
    house.objects["a"]["spec"]["onDelete"] = "drain"
    assert (await house.look()).reason == ("Accepted" if waits else "InvalidSpec")
    found = [change["metadata"]["finalizers"] for _, change in house.cluster.patches]
    assert found == ([[DRAIN_FINALIZER]] if waits else [])


async def test_a_deleted_object_waits_for_the_service_no_longer_than_its_time(house):
    """A namespace must not hang on a service that does not answer. The subscription goes when it is back (issue 46)."""
    house.unread = True
    house.objects["a"] = an_object()
    assert await house.look() is None, "nothing is written before the first reading"
    house.objects["a"] = an_object(
        deletionTimestamp="1970-01-01T00:00:10Z", finalizers=[DRAIN_FINALIZER]
    )
    assert (await house.look()).reason == "Draining"
    assert house.cluster.patches == []
    house.now.at = 71.0
    await house.look()
    assert house.cluster.patches[-1][1]["metadata"]["finalizers"] == []
    house.admin._put("create", "team.a", {"id": "team.a"})
    del house.objects["a"]
    await house.known.refresh()
    await house.look()
    assert "team.a" not in house.admin.entries


async def test_a_spec_that_is_too_large_is_refused_before_its_check(house):
    """The check of a megabyte takes seconds, in which the other tenants would wait (issue 46)."""
    item = an_object()
    item["spec"]["filters"] = [{"exact": {"type": f"x{number}"}} for number in range(1000)]
    house.objects["a"] = item
    outcome = await house.look()
    assert outcome.reason == "InvalidSpec"
    assert "limits.subscription_bytes" in outcome.message
    assert house.admin.calls == []


@pytest.mark.parametrize(
    "spec", [{"type": "ExternalName", "externalName": "x.example"}, {"type": "ClusterIP"}]
)
async def test_a_service_that_can_point_anywhere_is_refused(house, spec):
    """A tenant writes the addresses of a Service without a selector, and of one with a name (issue 46)."""
    item = an_object()
    item["spec"]["sink"] = {"service": {"name": "hook"}}
    house.objects["a"] = item
    named = {"metadata": {"name": "hook"}}
    house.place._services.objects["hook"] = {**named, "spec": {"selector": {"app": "hook"}}}
    assert (await house.look()).reason == "Accepted"
    house.place._services.objects["hook"] = {**named, "spec": spec}
    assert (await house.look()).reason == "ServiceNotAllowed"
    assert house.admin.entries["team.a"]["document"]["paused"] is True


@pytest.mark.parametrize(
    "host",
    [
        "hook.team.svc",
        "HOOK.team.svc.",
        "hook.team.svc.cluster.local",
        "pod.hook.team.svc",
        "hook.team",
    ],
)
async def test_a_url_reaches_no_service_that_can_point_anywhere(house, host):
    """The hosts of a namespace may have a wildcard for its own Services (issue 46)."""
    hosts = ("*.team.svc", "*.team.svc.cluster.local", "hook.team")
    house.place.rights = NamespaceRights(
        OperatorNamespace(name="team", topics=("orders",), hosts=hosts)
    )
    house.objects["a"] = an_object(url=f"https://{host}/")
    assert (await house.look()).reason == "Accepted"
    spec = {"type": "ExternalName", "externalName": "admin.others.svc.cluster.local"}
    house.place._services.objects["hook"] = {"metadata": {"name": "hook"}, "spec": spec}
    changed = []
    house.place._changed = changed.append
    house.place._service_changed("hook")
    assert changed == [("team", "a")]
    assert (await house.look()).reason == "ServiceNotAllowed"
    assert is_paused(house)


async def test_a_token_is_asked_of_no_service_that_can_point_anywhere(house):
    house.place.rights = NamespaceRights(
        OperatorNamespace(name="team", topics=("orders",), hosts=("a.example.com", "*.team.svc"))
    )
    data = {"k": "czNjcjN0"}
    house.place._secrets.objects["s"] = {
        "metadata": {"labels": {SECRET_LABEL: SECRET_USE}},
        "data": data,
    }
    house.place._services.objects["hook"] = {
        "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName"},
    }
    item = an_object()
    item["spec"]["auth"] = {
        "kind": "oauth2", "client_id": "c", "token_endpoint": "https://hook.team.svc/", "secretRef": {"name": "s", "key": "k"},
    }  # fmt: skip
    house.objects["a"] = item
    assert (await house.look()).reason == "ServiceNotAllowed"


async def test_a_new_leader_writes_nothing_that_is_stored(house):
    house.objects["a"] = an_object()
    await house.look()
    other = House(house.admin)
    other.objects["a"] = an_object()
    await other.known.refresh()
    assert (await other.look()).reason == "Accepted"
    assert len(house.admin.calls) == 1


@pytest.mark.parametrize("is_restored", [True, False])
async def test_what_was_changed_behind_the_operator_is_written_again(house, is_restored):
    """A backup of the store lacks subscriptions, or has older ones (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    house.admin.entries.pop("team.a")
    if is_restored:
        house.admin._put("create", "team.a", {"id": "team.a", "sink": "https://a.example.com/old"})
    await house.known.refresh()
    await house.work.report_health()
    assert house.work.waiting == 1
    await house.look()
    assert house.admin.entries["team.a"]["document"]["sink"] == "https://a.example.com/"
    await house.known.refresh()
    calls = len(house.admin.calls)
    await house.work.report_health()
    await house.look()
    assert len(house.admin.calls) == calls


async def test_the_id_of_another_is_a_condition_with_both_places(house):
    house.admin.entries["team.a"] = {"id": "team.a", "origin": "api", "document": {}, "etag": "1"}
    await house.known.refresh()
    house.objects["a"] = an_object()
    outcome = await house.look()
    assert (outcome.reason, outcome.status) == ("IdTaken", "False")
    assert "team/a" in outcome.message
    del house.objects["a"]
    await house.look()
    assert "team.a" in house.admin.entries, "it is not the object's"


async def test_who_loses_a_right_is_paused_and_keeps_its_position(house):
    house.objects["a"] = an_object()
    await house.look()
    house.objects["a"] = an_object(url="https://elsewhere.example/")
    assert (await house.look()).reason == "NotAllowed"
    document = house.admin.entries["team.a"]["document"]
    assert (document["paused"], document["sink"]) == (True, "https://a.example.com/")
    house.objects["a"] = an_object()
    assert (await house.look()).reason == "Accepted"
    assert "paused" not in house.admin.entries["team.a"]["document"]


async def test_a_subscription_does_not_go_on_with_a_secret_that_was_withdrawn(house):
    """Deleting or unlabelling a Secret ends its use, and its return ends the pause (issue 46)."""
    item = an_object()
    item["spec"]["signing"] = {"secretRef": {"name": "hook", "key": "secret"}}
    named = {"name": "hook", "labels": {SECRET_LABEL: SECRET_USE}}
    secret = {
        "metadata": named,
        "data": {"secret": "d2hzZWNfWm1seWMzUXRjMlZqY21WMExXOW1MWFJvWlMxMFpYTjBjdz09"},
    }
    house.objects["a"] = item
    house.place._secrets.objects["hook"] = secret
    assert (await house.look()).reason == "Accepted"
    del house.place._secrets.objects["hook"]
    outcome = await house.look()
    assert (outcome.reason, outcome.status) == ("SecretMissing", "False")
    assert "is paused" in outcome.message
    assert house.admin.entries["team.a"]["document"]["paused"] is True
    house.place._secrets.objects["hook"] = secret
    assert (await house.look()).reason == "Accepted"
    assert "paused" not in house.admin.entries["team.a"]["document"]


async def test_an_object_of_another_installation_is_left_to_it(house):
    """Of two installations that list a namespace, the one whose status an object has is alone (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    house.objects["a"] = {**an_object(), "status": {"operator": "skybridge/other"}}
    for _ in range(2):
        assert await house.look() is None
    assert house.reporter.foreign == ["a"]
    assert house.admin.entries["team.a"]["document"]["paused"] is True
    house.objects["a"] = {**an_object(), "status": {"operator": "skybridge/mine"}}
    assert (await house.look()).reason == "Accepted"
    assert "paused" not in house.admin.entries["team.a"]["document"]


async def test_a_deleted_object_does_not_wait_for_an_installation_that_is_gone(house):
    """It was removed without its hook, so a namespace would hang on its finalizer (issue 46)."""
    deleted = {
        "deletionTimestamp": "1970-01-01T00:00:10Z",
        "finalizers": ["example.com/other", DRAIN_FINALIZER],
    }
    house.objects["a"] = {**an_object(**deleted), "status": {"operator": "skybridge/gone"}}
    house.now.at = 129.0
    await house.look()
    assert house.cluster.patches == [], "the other installation may still be at work"
    house.now.at = 131.0
    await house.look()
    assert house.cluster.patches[-1][1]["metadata"]["finalizers"] == ["example.com/other"]


async def test_a_namespace_that_is_not_listed_any_more_is_paused(house):
    house.objects["a"] = an_object()
    await house.look()
    house.work._namespaces = {}
    await house.known.refresh()
    for _ in range(2):
        await house.work.pause_orphans()
    assert house.admin.entries["team.a"]["document"]["paused"] is True
    changes = [change for _, change in house.cluster.patches]
    assert [each["metadata"]["finalizers"] for each in changes[:1]] == [["example.com/other"]]
    assert changes[1:] == [{"status": {"operator": None}}], "another installation may have it now"


async def test_an_object_that_another_installation_has_by_now_is_not_released(house):
    """Its finalizer would go, and with it what the other one still has to deliver (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    house.work._namespaces = {}
    house.cluster.operator = "skybridge/other"
    await house.known.refresh()
    await house.work.pause_orphans()
    assert house.cluster.patches == []
    assert house.admin.entries["team.a"]["document"]["paused"] is True


async def test_a_reading_that_is_older_than_a_change_does_not_undo_it(house):
    house.objects["a"] = an_object()
    reading = asyncio.create_task(house.known.refresh())
    await asyncio.sleep(0)
    await house.look()
    await reading
    assert "team.a" in house.known.entries
    await house.look()
    assert [call for call, _ in house.admin.calls] == ["create"]


@pytest.mark.parametrize("parked", [True, None])
async def test_no_parked_event_is_deleted_because_the_store_did_not_count_it(house, parked):
    """An event may be parked after the state of the subscription was read (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    deleted = {"deletionTimestamp": "1970-01-01T00:00:10Z", "finalizers": [DRAIN_FINALIZER]}
    house.objects["a"] = an_object(**deleted)
    await house.look()
    await house.known.refresh()
    house.admin.parked = parked
    await house.look()
    assert "team.a" in house.admin.entries
    assert house.cluster.patches == []
    house.admin.parked = False
    await house.look()
    assert "team.a" not in house.admin.entries
    assert house.cluster.patches[-1][1]["metadata"]["finalizers"] == []


async def test_a_drain_waits_while_the_number_of_parked_events_is_unknown(house):
    house.objects["a"] = an_object()
    await house.look()
    deleted = {"deletionTimestamp": "1970-01-01T00:00:10Z", "finalizers": [DRAIN_FINALIZER]}
    house.objects["a"] = an_object(**deleted)
    await house.look()
    house.admin.entries["team.a"]["health"] = {**HEALTH, "parked": None}
    await house.known.refresh()
    assert "It is not known whether all events are delivered" in (await house.look()).message
    assert "team.a" in house.admin.entries
    house.admin.entries["team.a"]["health"] = HEALTH
    await house.known.refresh()
    await house.look()
    assert "team.a" not in house.admin.entries


async def test_what_is_gone_needs_no_memory(house):
    """A tenant may create and delete objects with new names for ever (issue 46)."""
    reading = asyncio.create_task(house.known.refresh())
    await asyncio.sleep(0)
    for name in ("b", "c"):
        house.objects[name] = an_object(name)
        await house.look(name)
        del house.objects[name]
        await house.known._admin.delete(f"team.{name}", house.admin.entries[f"team.{name}"]["etag"])
    await reading
    assert {*house.known.entries} == {"team.b", "team.c"}, "the reading began before"
    await house.known.refresh()
    assert (house.known.entries, house.known._changes) == ({}, {})


async def test_a_deleted_object_with_the_finalizer_waits_for_its_events_and_not_for_ever(house):
    house.objects["a"] = an_object()
    await house.look()
    await house.known.refresh()
    deleted = {"deletionTimestamp": "1970-01-01T00:00:10Z", "finalizers": [DRAIN_FINALIZER]}
    house.objects["a"] = an_object(**deleted)
    assert (await house.look()).reason == "Draining", "the last reading is older than the deletion"
    house.admin.entries["team.a"]["health"] = {**HEALTH, "lag": 3}
    await house.known.refresh()
    outcome = await house.look()
    assert "Not all events" in outcome.message
    assert "kubectl patch" in outcome.message
    house.admin.entries["team.a"]["health"] = {**HEALTH, "lag": 2}
    await house.known.refresh()
    assert await house.look() == outcome, "else the status would be written each second"
    house.now.at = 71.0
    await house.look()
    assert "team.a" not in house.admin.entries
    assert house.cluster.patches[-1][1]["metadata"]["finalizers"] == []


async def test_an_object_of_the_same_name_begins_without_the_wait_of_the_one_before(house):
    """It was deleted with drain, released by hand and created again; its own end is then kept (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    deleted = {"deletionTimestamp": "1970-01-01T00:00:10Z", "finalizers": [DRAIN_FINALIZER]}
    house.objects["a"] = an_object(**deleted)
    await house.look()
    house.objects["a"] = an_object()
    await house.look()
    del house.objects["a"]
    await house.look()
    assert house.admin.entries["team.a"]["document"]["paused"] is True


@pytest.mark.parametrize("code", ["too-many-subscriptions", "id-taken", "invalid-subscription"])
async def test_a_refused_object_is_looked_at_again(house, code):
    """The cure may be another subscription, or a setting of the service: no change of the object follows (issue 46)."""

    async def refuse(_):
        raise AdminRefused(409, code, "not now")

    house.admin.create, create = refuse, house.admin.create
    house.objects["a"] = an_object()
    assert (await house.look()).status == "False"
    house.admin.create = create
    ((_, timer),) = house.work._queue._timers.items()
    timer._run()
    assert house.work.waiting == 1
    assert (await house.look()).reason == "Accepted"
    timer.cancel()


def is_paused(house):
    return house.admin.entries["team.a"]["document"].get("paused", False)


async def look_again(house):
    """Read all subscriptions, and look at the object if it has to be looked at."""
    await house.known.refresh()
    await house.work.pause_orphans()
    await house.work.report_health()
    if house.work.waiting:
        house.work._queue.done(await house.work._queue.take(0.0))
        await house.look()
        return True
    return False


def an_invalid_object():
    item = an_object()
    item["spec"]["order_by"] = 5
    return item


async def test_an_invalid_object_keeps_no_right_that_its_namespace_has_lost(house):
    """Otherwise a tenant would make the object invalid on purpose, and go on reading the topic (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    house.objects["a"] = an_invalid_object()
    assert (await house.look()).reason == "InvalidSpec"
    assert not is_paused(house), "the subscription in force stays as it was"
    narrower = OperatorNamespace(name="team", topics=("others",), hosts=("a.example.com",))
    house.place.rights = NamespaceRights(narrower)
    assert await look_again(house)
    outcome = await house.look()
    assert (outcome.reason, "is paused" in outcome.message) == ("InvalidSpec", True)
    assert is_paused(house)


async def test_an_invalid_object_cannot_turn_its_service_into_a_name_for_any_address(house):
    """The Service of the subscription in force counts, not the one of the object as it is now (issue 46)."""
    item = an_object()
    item["spec"]["sink"] = {"service": {"name": "hook"}}
    service = {"metadata": {"name": "hook"}, "spec": {"selector": {"app": "hook"}}}
    house.place._services.objects["hook"] = service
    house.objects["a"] = item
    await house.look()
    house.objects["a"] = an_invalid_object()
    await house.look()
    assert not is_paused(house)
    elsewhere = {"type": "ExternalName", "externalName": "admin.others.svc.cluster.local"}
    house.place._services.objects["hook"] = {**service, "spec": elsewhere}
    assert await look_again(house)
    assert is_paused(house)


async def test_a_secret_url_in_force_is_paused_while_its_object_is_invalid(house):
    """Its host is hidden, so nothing shows whether the namespace may still name it (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    hidden = {
        "id": "team.a",
        "source": an_object()["spec"]["source"],
        "sink": {"url": HIDDEN, "secret": True},
    }
    house.admin._put("replace", "team.a", hidden)
    await house.known.refresh()
    house.objects["a"] = an_invalid_object()
    await house.look()
    assert is_paused(house)


@pytest.mark.parametrize("end", ["denied", "foreign", "unlisted"])
async def test_a_pause_that_was_undone_behind_the_operator_is_made_again(house, end):
    """A restored backup of the store has the subscription as it was before (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    before = house.admin.entries["team.a"]["document"]
    if end == "denied":
        house.objects["a"] = an_object(url="https://elsewhere.example/")
    elif end == "foreign":
        house.objects["a"] = {**an_object(), "status": {"operator": "skybridge/other"}}
    else:
        house.work._namespaces = {}
    if house.work._namespaces:
        await house.look()
    else:
        await look_again(house)
    assert is_paused(house)
    assert not await look_again(house)
    house.admin._put("replace", "team.a", before)
    await look_again(house)
    assert is_paused(house)


async def test_a_subscription_that_can_run_again_is_ready_again(house):
    """The cure of a fault may be in the configuration alone, and so may the cause (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    for faults, reason in ((["The broker main does not exist."], "CannotRun"), ([], "Accepted")):
        house.admin.entries["team.a"]["faults"] = faults
        assert await look_again(house)
        assert (await house.look()).reason == reason
        assert not await look_again(house)


async def test_a_pause_that_the_admin_api_refuses_is_reported(house):
    async def refuse(*_):
        raise AdminRefused(403, "forbidden", "The token has no such right.")

    house.objects["a"] = an_object()
    await house.look()
    house.admin.replace = refuse
    house.objects["a"] = an_object(url="https://elsewhere.example/")
    outcome = await house.look()
    assert (outcome.reason, "cannot be paused" in outcome.message) == ("NotAllowed", True)


async def test_a_namespace_cannot_use_up_the_subscriptions_of_all_by_deleted_objects(house):
    """Each is kept, so a limit of objects alone would not help (issue 46)."""
    limited = OperatorNamespace(
        name="team", topics=("orders",), hosts=("a.example.com",), subscriptions=2
    )
    house.place.rights = NamespaceRights(limited)
    for name in ("a", "b", "c"):
        house.objects[name] = an_object(name)
    found = await asyncio.gather(*(house.look(name) for name in ("a", "b", "c")))
    assert [each.reason for each in found] == ["Accepted", "Accepted", "LimitReached"]
    del house.objects["a"]
    await house.look("a")
    assert (await house.look("c")).reason == "LimitReached"
    house.objects["a"] = an_object()
    assert (await house.look()).reason == "Accepted"
    house.admin.entries.pop("team.b")
    await house.known.refresh()
    assert (await house.look("c")).reason == "Accepted"


async def test_a_late_deletion_takes_nothing_that_another_leader_has_written(house):
    """The object was created again meanwhile, and its new subscription would lose its position (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    house.objects["a"] = an_object(
        deletionTimestamp="1970-01-01T00:00:10Z", finalizers=[DRAIN_FINALIZER]
    )
    await house.look()
    del house.objects["a"]
    house.admin._put("replace", "team.a", {"id": "team.a", "concurrency": 7})
    with pytest.raises(AdminRefused):
        await house.look()
    assert house.admin.entries["team.a"]["document"]["concurrency"] == 7


async def test_a_change_while_the_lease_is_in_doubt_is_looked_at_later(house):
    """The API server was away for a while, and the change that came with its first answer was never written."""
    await house.known.refresh()
    house.objects["a"] = an_object()
    house.leads = False
    work = asyncio.create_task(house.work.run())
    try:
        house.work.add(("team", "a"))
        while house.work.waiting:
            await asyncio.sleep(0)
        house.leads = True
        async with asyncio.timeout(60):
            while house.reporter.outcomes.get(("team", "a")) is None:
                await asyncio.sleep(0.01)
    finally:
        work.cancel()
    assert house.admin.calls == [("create", "team.a")]


async def test_a_process_that_lost_the_lead_within_a_look_writes_nothing_more(house):
    """It was stopped, and another one has written a newer document meanwhile (issue 46)."""
    house.objects["a"] = an_object()
    await house.look()
    replace = house.admin.replace

    async def replace_late(name, document, etag):
        house.leads = False
        house.admin._put("replace", name, {**document, "concurrency": 7})
        return await replace(name, document, etag)

    house.admin.replace = replace_late
    house.objects["a"] = an_object(url="https://a.example.com/older")
    with pytest.raises(LeadLost):
        await house.look()
    assert house.admin.entries["team.a"]["document"]["concurrency"] == 7


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        ({}, ("True", "Running")),
        ({"state": "paused", "paused_for": 3.0, "last_error": "503"}, ("False", "EndpointPaused")),
        ({"state": "paused", "cause": "by ana"}, ("False", "Paused")),
        ({"state": "disabled"}, ("False", "Disabled")),
        ({"state": "elsewhere"}, ("Unknown", "Elsewhere")),
        ({"state": "restarting", "cause": "x"}, ("False", "Restarting")),
    ],
)
def test_the_condition_delivering_is_the_state_of_the_subscription(health, expected):
    assert delivering({**HEALTH, **health})[:2] == expected


def test_a_condition_keeps_its_time_and_numbers_alone_may_wait():
    outcome = SimpleNamespace(status="True", reason="Accepted", message="")
    first = status_of("team.a", 1, outcome, HEALTH, {}, "t1")
    later = status_of("team.a", 1, outcome, {**HEALTH, "lag": 4}, first, "t2")
    assert {each["lastTransitionTime"] for each in later["conditions"]} == {"t1"}
    assert not differs(first, later, counts=False)
    assert differs(first, later, counts=True)

"""Subscriptions that the API makes: kept, judged, sealed, and known to every process of the store."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.api.http.problems import RequestRefused
from app.config.check.candidate import examine
from app.config.load.loader import Loaded, load
from app.errors import SenderError, SetupError, VersionConflict
from app.features.subscriptions.catalog import SubscriptionCatalog
from app.features.subscriptions.registry import ApiSubscriptionRegistry
from app.model.secret import HIDDEN
from app.model.subscription import Subscription
from app.store import SqlStore, open_store
from app.store.encryption import Vault, new_key
from memory_store import MemoryStore

KEY = new_key()
DOCUMENT = {"source": {"broker": "log", "topics": ["events"]}, "sink": "https://b.example/"}
WITH_SECRET = {**DOCUMENT, "id": "made", "auth": {"kind": "bearer", "token": "hunter2"}}


class Process:
    """One of those that share the store."""

    def __init__(self, loaded: Loaded, store: SqlStore, *keys: str) -> None:
        self.store = store
        self.forgotten: list[str] = []
        self.catalog = SubscriptionCatalog(loaded, store, Vault(keys))
        self.registry = ApiSubscriptionRegistry(self.catalog, forget=self._forget, look=self._look)

    async def _look(self) -> None:
        """No worker runs here."""

    async def _forget(self, subscription: Subscription) -> None:
        self.forgotten.append(subscription.id)


def configured(folder: Path, more: str = "", brokers: str = "") -> Loaded:
    file = folder / "skybridge.yaml"
    file.write_text(
        f"""version: 1
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  log: {{kind: embedded, path: {folder}/log}}
{brokers}
routes: [{{name: all, to: {{broker: log, topic: events}}}}]
limits: {{subscriptions: 3}}
subscriptions:
  - {{id: filed, source: {{broker: log, topics: [events]}}, sink: "https://f.example/"}}
{more}"""
    )
    return load(file, {})


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = open_store(tmp_path / "store.db", timeout=60)
    await store.start()
    yield store
    await store.stop()


@pytest.fixture
def process(tmp_path: Path, store: SqlStore) -> Process:
    return Process(configured(tmp_path), store, KEY)


async def faults_of(step: Any) -> dict[str, str]:
    with pytest.raises(SenderError) as refused:
        await step
    assert refused.value.status == 422
    return {fault.at: fault.code for fault in refused.value.faults}


async def test_what_was_given_is_what_is_shown(process: Process) -> None:
    """Nothing is added and nothing normalised, so that it pastes into the file as it is."""
    document = {**DOCUMENT, "id": "made", "timeout": "3s", "retry": {"hold": 1}}
    made = await process.registry.make(document)
    assert made.document == document
    assert (await process.registry.entry("made")) == made


async def test_values_of_headers_are_sealed_and_kept_for_the_same_target_alone(
    process: Process,
) -> None:
    """They may be secrets: nobody is shown them, and nobody sends them elsewhere."""
    headers = {"x-tenant": "eu", "x-gateway-key": "hunter2"}
    made = await process.registry.make({**DOCUMENT, "id": "made", "headers": headers})
    assert made.document["headers"] == dict.fromkeys(headers, HIDDEN)
    (stored,) = await process.store.subscriptions.all()
    assert b"hunter2" not in stored.document
    changed = await process.registry.change(made, {**made.document, "timeout": "3s"})
    assert changed.subscription is not None
    kept = {name: of.get_secret_value() for name, of in changed.subscription.headers.items()}
    assert kept == headers
    moved = {**changed.document, "sink": "https://elsewhere.example/"}
    faults = await faults_of(process.registry.change(changed, moved))
    assert set(faults) == {"/headers/x-tenant", "/headers/x-gateway-key"}


async def test_one_without_an_id_gets_one(process: Process) -> None:
    one, other = [await process.registry.make(DOCUMENT) for _ in range(2)]
    assert one.id != other.id


@pytest.mark.parametrize("name", ["filed", "made"])
async def test_an_id_is_taken_once(process: Process, name: str) -> None:
    await process.registry.make({**DOCUMENT, "id": "made"})
    with pytest.raises(RequestRefused) as refused:
        await process.registry.make({**DOCUMENT, "id": name})
    assert refused.value.status == 409


async def test_a_new_url_keeps_to_rfc_3986_and_one_that_is_kept_may_stay(process: Process) -> None:
    """What is there goes on, with a warning; nobody writes another."""
    old = {**DOCUMENT, "id": "made", "sink": "https://b.example/{a}"}
    faults = await faults_of(process.registry.make(old))
    assert faults == {"/sink": "unfit-setting"}
    await process.store.subscriptions.put("made", msgspec.json.encode(old), expected=0, now_ms=1)
    entry = await process.registry.entry("made")
    assert entry is not None
    assert (entry.faults, entry.subscription is not None) == ((), True)
    assert "'{', '}'" in str(entry.warnings)
    entry = await process.registry.change(entry, {**old, "timeout": "3s"})
    assert entry.document["timeout"] == "3s"
    other = {**old, "sink": "https://b.example/a b"}
    assert await faults_of(process.registry.change(entry, other)) == {"/sink": "unfit-setting"}


async def test_those_of_the_file_are_changed_in_the_file(process: Process) -> None:
    """409, with the file and the line."""
    entry = await process.registry.entry("filed")
    assert entry is not None
    for step in (process.registry.change(entry, DOCUMENT), process.registry.remove(entry)):
        with pytest.raises(RequestRefused) as refused:
            await step
        assert refused.value.status == 409
        assert "skybridge.yaml, line 9" in str(refused.value)


async def test_of_two_changes_of_one_version_one_is_refused(process: Process) -> None:
    """A lost update is possible only where nobody looks: both read, both write, one is told."""
    entry = await process.registry.make({**DOCUMENT, "id": "made"})
    outcomes = await asyncio.gather(
        *(process.registry.change(entry, {**DOCUMENT, "concurrency": n}) for n in (5, 6)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in outcomes) == [
        "SubscriptionEntry",
        "VersionConflict",
    ]


async def test_one_made_again_has_another_etag(process: Process) -> None:
    """Else a change meant for the one that was deleted would hit the new one."""
    first = await process.registry.make({**DOCUMENT, "id": "made"})
    await process.registry.remove(first)
    await asyncio.sleep(0.002)
    again = await process.registry.make({**DOCUMENT, "id": "made"})
    assert again.etag != first.etag


async def test_whoever_makes_one_forgets_the_group_that_was_left_behind(process: Process) -> None:
    await process.registry.make({**DOCUMENT, "id": "made"})
    assert process.forgotten == ["made"]


async def test_the_number_that_the_api_makes_is_bounded(process: Process) -> None:
    """Rule 8; also when they come at once."""
    outcomes = await asyncio.gather(
        *(process.registry.make(DOCUMENT) for _ in range(6)), return_exceptions=True
    )
    refused = [each for each in outcomes if isinstance(each, RequestRefused)]
    assert len(refused) == 3
    assert {each.code for each in refused} == {"too-many-subscriptions"}


async def test_another_process_knows_it_and_its_halts(tmp_path: Path, process: Process) -> None:
    other_store = open_store(tmp_path / "store.db", timeout=60)
    await other_store.start()
    other = Process(configured(tmp_path), other_store, KEY)
    await process.registry.make(WITH_SECRET)
    await process.store.halts.halt("made", "paused", "lunch", 1)
    await other.catalog.refresh()
    assert [each.id for each in other.catalog.subscriptions] == ["filed", "made"]
    assert other.catalog.halts["made"].cause == "lunch"
    await other_store.stop()


async def test_the_same_id_in_file_and_store_refuses_the_start(
    tmp_path: Path, process: Process
) -> None:
    """Nobody could say which is meant: both are named."""
    await process.registry.make({**DOCUMENT, "id": "both"})
    more = '  - {id: both, source: {broker: log, topics: [events]}, sink: "https://x.example/"}'
    anew = Process(configured(tmp_path, more), process.store, KEY)
    with pytest.raises(SetupError) as refused:
        await anew.catalog.start()
    assert "skybridge.yaml, line 10" in str(refused.value)
    assert "created by the API" in str(refused.value)


async def test_one_that_cannot_run_any_more_is_reported_and_runs_not(
    tmp_path: Path, store: SqlStore
) -> None:
    """Its broker left the file: no reason for the others not to start."""
    brokers = '  main: {kind: kafka, bootstrap_servers: "127.0.0.1:1"}'
    first = Process(configured(tmp_path, brokers=brokers), store, KEY)
    await first.registry.make({**DOCUMENT, "id": "good"})
    document = {**DOCUMENT, "id": "lost", "source": {"broker": "main", "topics": ["t"]}}
    await first.registry.make(document)
    later = Process(configured(tmp_path), store, KEY)
    await later.catalog.start()
    assert [each.id for each in later.catalog.subscriptions] == ["filed", "good"]
    (broken,) = later.catalog.broken()
    assert (broken.id, broken.document) == ("lost", document)
    assert "The broker 'main' does not exist" in broken.faults[0]


# secrets


async def test_no_secret_lies_in_the_database_or_is_shown(
    tmp_path: Path, process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    made = await process.registry.make(WITH_SECRET)
    assert made.document["auth"] == {"kind": "bearer", "token": HIDDEN}
    assert made.subscription is not None
    assert made.subscription.auth.token.get_secret_value() == "hunter2"  # type: ignore[union-attr]
    await process.store.stop()
    files = list(tmp_path.glob("store.db*"))
    assert files
    assert not any(b"hunter2" in file.read_bytes() for file in files)
    assert "hunter2" not in caplog.text + repr(made)
    await process.store.start()


async def test_without_a_key_a_secret_is_refused_and_the_setting_named(
    tmp_path: Path, store: SqlStore
) -> None:
    keyless = Process(configured(tmp_path), store)
    with pytest.raises(SenderError) as refused:
        await keyless.registry.make(WITH_SECRET)
    assert "store.encryption.key" in str(refused.value)
    assert (await keyless.registry.make({**DOCUMENT, "id": "plain"})).faults == ()


async def test_a_placeholder_sent_back_keeps_the_secret(process: Process) -> None:
    made = await process.registry.make(WITH_SECRET)
    changed = await process.registry.change(made, {**made.document, "concurrency": 9})
    assert changed.subscription is not None
    assert changed.subscription.auth.token.get_secret_value() == "hunter2"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "change",
    [
        {"sink": "https://evil.example/"},
        {"sink": "https://b.example:8443/"},
        {"sink": "http://b.example/"},
        {"sink": {"broker": "log", "topic": "t"}},
    ],
)
async def test_a_kept_secret_goes_to_no_other_target(
    process: Process, change: dict[str, Any]
) -> None:
    """Who may write but not read it must not have it sent to an address of his own."""
    made = await process.registry.make(WITH_SECRET)
    faults = await faults_of(process.registry.change(made, {**made.document, **change}))
    assert faults["/auth/token"] == "other-target"


async def test_a_kept_client_secret_goes_to_no_other_token_endpoint(process: Process) -> None:
    auth = {
        "kind": "oauth2",
        "token_endpoint": "https://id.example/",
        "client_id": "me",
        "client_secret": "hunter2",
    }
    made = await process.registry.make({**WITH_SECRET, "auth": auth})
    shown: Any = made.document["auth"]
    moved = {**made.document, "auth": {**shown, "token_endpoint": "https://evil.example/"}}
    faults = await faults_of(process.registry.change(made, moved))
    assert faults == {"/auth/client_secret": "other-target"}


@pytest.mark.parametrize("auth", [{"kind": "bearer"}, {"kind": "basic", "username": "me"}])
async def test_a_placeholder_with_nothing_behind_it_is_refused(
    process: Process, auth: dict[str, str]
) -> None:
    name = "token" if auth["kind"] == "bearer" else "password"
    document = {**DOCUMENT, "id": "made", "auth": {**auth, name: HIDDEN}}
    assert await faults_of(process.registry.make(document)) == {f"/auth/{name}": "placeholder"}
    plain = await process.registry.make({**DOCUMENT, "id": "made"})
    faults = await faults_of(process.registry.change(plain, document))
    assert faults == {f"/auth/{name}": "placeholder"}


async def test_a_signing_secret_stays_when_the_sink_moves(process: Process) -> None:
    """It signs what is sent, and is not sent itself."""
    signing = {"secret": "whsec_" + "QUJD" * 8}
    made = await process.registry.make({**DOCUMENT, "id": "made", "signing": signing})
    moved = {**made.document, "sink": "https://other.example/"}
    assert (await process.registry.change(made, moved)).subscription is not None


async def test_rotation_seals_anew_and_the_old_key_can_go(tmp_path: Path, store: SqlStore) -> None:
    old, new = new_key(), new_key()
    await Process(configured(tmp_path), store, old).registry.make(WITH_SECRET)
    both = Process(configured(tmp_path), store, new, old)
    await both.catalog.start()
    (sealed,) = await store.subscriptions.all()
    await both.catalog.start()
    assert await store.subscriptions.all() == [sealed], "what is sealed anew stays as it is"
    after = Process(configured(tmp_path), store, new)
    entry = await after.registry.entry("made")
    assert entry is not None
    assert entry.faults == ()


async def test_under_another_key_it_is_broken_and_says_so(tmp_path: Path, process: Process) -> None:
    """The key is lost: reported, not fatal, and it can be given anew."""
    await process.registry.make(WITH_SECRET)
    other = Process(configured(tmp_path), process.store, new_key())
    await other.catalog.start()
    (broken,) = other.catalog.broken()
    assert "store.encryption" in broken.faults[0]
    mended = await other.registry.change(broken, WITH_SECRET)
    assert mended.faults == ()


async def test_a_change_of_a_version_that_is_gone_is_refused(process: Process) -> None:
    made = await process.registry.make({**DOCUMENT, "id": "made"})
    await process.registry.change(made, {**DOCUMENT, "concurrency": 2})
    for step in (process.registry.change(made, DOCUMENT), process.registry.remove(made)):
        with pytest.raises(VersionConflict):
            await step


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"\xff", b"{}", b'{"id": 3}'])
async def test_what_somebody_else_wrote_into_the_store_is_reported(
    process: Process, document: bytes
) -> None:
    """Not fatal, and it can be deleted."""
    await process.store.subscriptions.put("odd", document, expected=0, now_ms=1)
    await process.catalog.start()
    (broken,) = process.catalog.broken()
    assert broken.faults
    await process.registry.remove(broken)
    assert process.catalog.broken() == []


async def test_a_filter_on_an_attribute_called_fernet_is_no_secret(process: Process) -> None:
    document = {**DOCUMENT, "id": "made", "filters": [{"exact": {"fernet": "x"}}]}
    assert (await process.registry.make(document)).document == document


async def test_one_that_a_variable_gives_as_a_whole_is_shown_by_its_id(tmp_path: Path) -> None:
    """SKYBRIDGE_SUBSCRIPTIONS__0={...}: its document was a text, which no client expects."""
    configured(tmp_path)
    given = msgspec.json.encode({**DOCUMENT, "id": "given"}).decode()
    loaded = load(tmp_path / "skybridge.yaml", {"SKYBRIDGE_SUBSCRIPTIONS__0": given})
    store: Any = MemoryStore()
    (entry,) = SubscriptionCatalog(loaded, store, Vault(())).entries
    reference = "${env:SKYBRIDGE_SUBSCRIPTIONS__0}"
    assert entry.document == {"id": "given", "source": reference, "sink": reference}


OPERATOR = """server: {admin: {token: token-of-the-administrator, tokens: [
  {name: kubernetes, token: token-of-the-operator, owner: kubernetes, scopes: [read, configure]}]}}"""


async def test_what_an_object_declares_belongs_to_it_alone(tmp_path: Path, store: SqlStore) -> None:
    """Callers of the API read it and change nothing; the operator changes nothing of theirs."""
    process = Process(configured(tmp_path, OPERATOR), store, KEY)
    registry = process.registry
    owned = await registry.make({**DOCUMENT, "id": "team-a.billing"}, owner="kubernetes")
    assert (owned.origin, owned.place) == (
        "kubernetes",
        "the Kubernetes object team-a/billing of kind Subscription",
    )
    mine = await registry.make({**DOCUMENT, "id": "mine"})
    for step in (
        registry.change(owned, {**DOCUMENT, "timeout": "3s"}),
        registry.remove(owned),
        registry.make({**DOCUMENT, "id": "team-a.billing"}),
    ):
        with pytest.raises(RequestRefused, match="team-a/billing") as refused:
            await step
        assert (refused.value.status, refused.value.code) == (409, "made-by-object")
    for step in (
        registry.change(mine, {**DOCUMENT, "timeout": "3s"}, owner="kubernetes"),
        registry.remove(mine, "kubernetes"),
        registry.make({**DOCUMENT, "id": "mine"}, owner="kubernetes"),
    ):
        with pytest.raises(RequestRefused) as refused:
            await step
        assert refused.value.code == "id-taken"
    changed = await registry.change(owned, {**DOCUMENT, "timeout": "3s"}, owner="kubernetes")
    assert (changed.origin, changed.document["timeout"]) == ("kubernetes", "3s")
    await registry.remove(changed, "kubernetes")


async def test_what_an_operator_leaves_behind_can_be_deleted_without_it(process: Process) -> None:
    """No token has its owner, so nobody else could ever delete it (issue 46)."""
    owned = await process.registry.make({**DOCUMENT, "id": "team-a.billing"}, owner="kubernetes")
    with pytest.raises(RequestRefused, match="team-a/billing"):
        await process.registry.change(owned, {**DOCUMENT, "timeout": "3s"})
    await process.registry.remove(owned)
    assert await process.registry.entry("team-a.billing") is None


async def test_the_same_document_again_changes_nothing(process: Process) -> None:
    """So that workers do not read it again, and its ETag stays."""
    made = await process.registry.make(WITH_SECRET)
    assert await process.registry.change(made, WITH_SECRET) == made
    other = {**WITH_SECRET, "auth": {"kind": "bearer", "token": "hunter3"}}
    assert (await process.registry.change(made, other)).version > made.version


async def test_a_change_is_checked_alone_unless_others_depend_on_it(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand subscriptions would else be checked for each of a thousand changes."""
    checked: list[int] = []

    def counting(loaded: Loaded, documents: Any, *more: Any) -> Any:
        checked.append(len(documents))
        return examine(loaded, documents, *more)

    monkeypatch.setattr("app.features.subscriptions.catalog.examine", counting)
    for name in ("one", "two"):
        await process.registry.make({**DOCUMENT, "id": name})
    assert checked == [], "the registry has checked them already"
    await process.registry.make(
        {**DOCUMENT, "id": "three", "sink": {"broker": "log", "topic": "t"}}
    )
    assert checked == [1, 3], "a mirror feeds others"
    mirror = await process.registry.entry("three")
    assert mirror is not None
    await process.registry.remove(mirror)
    assert checked[2:] == [2]


async def test_a_change_reads_no_other_subscription(
    tmp_path: Path, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand subscriptions would else be read for each of a thousand changes, by every process (issue 46)."""
    read: list[str] = []
    changes = process.store.subscriptions.changes

    async def noting(since: int) -> Any:
        found = await changes(since)
        read.extend(each.id for each in found.changed)
        return found

    other = Process(configured(tmp_path), process.store, KEY)
    monkeypatch.setattr(process.store.subscriptions, "changes", noting)
    monkeypatch.setattr(process.store.subscriptions, "all", None)
    one, two = [await process.registry.make({**DOCUMENT, "id": name}) for name in ("one", "two")]
    assert read == []
    await other.catalog.refresh()
    assert read == ["one", "two"]
    changed = await process.registry.change(two, {**two.document, "timeout": "3s"})
    await process.registry.remove(one)
    await other.catalog.refresh()
    assert read[2:] == ["two"], "by the other process alone"
    for each in (process, other):
        assert (each.catalog.entry("one"), each.catalog.entry("two")) == (None, changed)
    assert other.catalog.subscriptions == process.catalog.subscriptions


async def test_a_restored_store_that_has_had_as_many_changes_again_is_read_anew(
    tmp_path: Path, process: Process
) -> None:
    """A process that slept meanwhile would else know rows that are gone, and miss others, for ever."""
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as file:
        one = await process.registry.make({**DOCUMENT, "id": "one"})
        backup = sqlite3.connect(":memory:")
        file.backup(backup)
        await process.registry.change(one, {**one.document, "timeout": "3s"})
        asleep = Process(configured(tmp_path), process.store, KEY)
        await asleep.catalog.refresh()
        backup.backup(file)
        backup.close()
    for name in ("two", "three"):
        await process.registry.make({**DOCUMENT, "id": name})
    await asleep.catalog.refresh()
    assert asleep.catalog.entries == process.catalog.entries
    assert [each.id for each in asleep.catalog.entries] == ["filed", "one", "three", "two"]
    assert asleep.catalog.entry("one") == one


async def test_creations_at_the_same_time_disturb_one_another_not(process: Process) -> None:
    """One of an id is made, and its group is forgotten once: a second deletion would take its position."""
    outcomes = await asyncio.gather(
        *(process.registry.make({**DOCUMENT, "id": name}) for name in ("one", "two", "one")),
        return_exceptions=True,
    )
    refused = [each.code for each in outcomes if isinstance(each, RequestRefused)]
    assert refused == ["id-taken"]
    assert sorted(process.forgotten) == ["one", "two"]
    assert sorted(each.id for each in process.catalog.subscriptions) == ["filed", "one", "two"]


async def test_mirrors_that_are_created_at_the_same_time_form_no_loop(process: Process) -> None:
    """Each is checked against the others, whichever comes first."""

    def mirror(source: str, target: str) -> dict[str, Any]:
        return {
            "id": f"{source}-{target}",
            "source": {"broker": "log", "topics": [source]},
            "sink": {"broker": "log", "topic": target},
        }

    outcomes = await asyncio.gather(
        *(process.registry.make(mirror(*each)) for each in (("a", "b"), ("b", "a"))),
        return_exceptions=True,
    )
    assert sum(isinstance(each, SenderError) for each in outcomes) == 1, outcomes
    assert len(process.catalog.subscriptions) == 2


async def test_workers_take_the_changes_of_an_owner_together(process: Process) -> None:
    """They look once a second anyway; a look for each of a thousand changes would take minutes."""
    looked: list[str] = []

    async def look() -> None:
        looked.append("look")

    registry = ApiSubscriptionRegistry(process.catalog, forget=process._forget, look=look)
    owned = await registry.make({**DOCUMENT, "id": "team-a.one"}, owner="kubernetes")
    await registry.remove(owned, "kubernetes")
    assert looked == []
    await registry.make({**DOCUMENT, "id": "mine"})
    assert looked == ["look"]

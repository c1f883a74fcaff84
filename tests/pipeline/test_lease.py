"""The lease of a lake that is in no folder: one holder, told at once; a dead one is followed when the lease ends."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from app.errors import SetupError
from app.pipeline.archive import lease, lock
from app.pipeline.archive.lease import Holder, Lease
from app.pipeline.settings import Lake
from app.spark.settings import LakeCatalog
from lake_folders import lake_in, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.usefixtures("spark")]


def silent(_text: str) -> None:
    """Do nothing."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_in(tmp_path_factory.mktemp("leased"))


@pytest.fixture(scope="module")
def session(lake: Lake, spark: SparkSession) -> SparkSession:
    """A session whose namespace exists."""
    session = session_of(lake)
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lake.namespace}")
    return session


def test_of_two_that_have_seen_the_same_one_takes_it(session: SparkSession, lake: Lake) -> None:
    """The catalog refuses the commit of the slower one."""
    first, second = Lease(session, lake, "archive"), Lease(session, lake, "archive")
    first.take(silent)
    first.release()
    seen = second.holder()
    first.take(silent)
    assert not second._commit(seen, Holder(seen.number + 1, second.own.name))
    assert second.holder() == first.own
    first.release()
    assert not second.holder().name


def test_a_holder_that_renews_is_named(
    session: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process waits until it sees a renewal, and says until when it waits."""
    monkeypatch.setattr(lease, "LOOK", 0.01)
    first, second = Lease(session, lake, "archive"), Lease(session, lake, "archive")
    first.take(silent)
    told: list[str] = []

    def renew(text: str) -> None:
        told.append(text)
        assert first.renew()

    with pytest.raises(SetupError, match=first.own.name):
        second.take(renew)
    assert "takes over at" in told[0]
    first.release()


def test_a_holder_that_is_dead_is_followed(
    session: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has lost the lease, should it live after all."""
    assert lease.LASTS <= 30
    monkeypatch.setattr(lease, "LOOK", 0.01)
    monkeypatch.setattr(lease, "LASTS", 0.05)
    dead, living = Lease(session, lake, "archive"), Lease(session, lake, "archive")
    dead.take(silent)
    living.take(silent)
    assert living.own.number == dead.own.number + 1
    assert not dead.renew()
    dead.release()
    assert living.renew()
    living.release()


@pytest.mark.nightly
def test_both_leases_of_a_dead_process_are_waited_for_once(
    session: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An erasure needs both. Its predecessor was killed."""
    for right in ("archive", "upkeep"):
        Lease(session, lake, right).take(silent)
    clock = [0.0]
    monkeypatch.setattr(
        lease, "time",
        SimpleNamespace(
            monotonic=lambda: clock[0], time=lambda: 0.0,
            sleep=lambda seconds: clock.__setitem__(0, clock[0] + 5 * seconds),
        ),
    )  # fmt: skip
    told: list[str] = []
    elsewhere = Lake(LakeCatalog("jdbc", lake.catalog.uri, "s3://not/of/this/machine"))
    with lock.holding_all(session, elsewhere, told.append):
        assert lease.LASTS <= clock[0] <= 30
    assert len(told) == 2


@pytest.mark.nightly
def test_archive_and_upkeep_do_not_wait_for_each_other(session: SparkSession, lake: Lake) -> None:
    """Both commit to one table at the same moment, and repeat what was refused."""
    leases = [Lease(session, lake, "archive"), Lease(session, lake, "upkeep")]
    threads = [threading.Thread(target=each.take, args=(silent,)) for each in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [each.holder().name for each in leases] == [each.own.name for each in leases]
    for each in leases:
        each.release()


def test_a_lake_in_no_folder_has_a_lease(session: SparkSession, lake: Lake) -> None:
    elsewhere = Lake(LakeCatalog("jdbc", lake.catalog.uri, "s3://not/of/this/machine"))
    with lock.holding_lock(session, elsewhere):
        assert Lease(session, elsewhere, "archive").holder().name
    assert not Lease(session, elsewhere, "archive").holder().name

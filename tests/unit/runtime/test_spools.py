"""What becomes of a spool over starts, reloads and outages of its target."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.bindings.record import Record
from app.brokers.embedded import EmbeddedDriver
from app.errors import SetupError
from app.features import spools
from app.interfaces.clock import SystemClock
from app.model.receipt import Receipt
from memory_store import MemoryStore
from spool_rig import ELSEWHERE, NONE, PLAIN, ROUTES, SpoolHouse, change_to
from waiting import until


@pytest.fixture
def house(tmp_path: Path) -> SpoolHouse:
    return SpoolHouse(tmp_path)


async def test_an_outage_is_spooled_told_and_drained_in_order(house: SpoolHouse) -> None:
    async with house.running():
        results = [await house.post(str(n)) for n in range(20)]
        assert {result[0].topic for result in results} == {"__spool.orders"}
        state = await house.until_state("spooling")
        assert (state.records, state.cause, state.most) == (20, "away", 1 << 20)
        assert state.bytes > 0
        assert state.oldest_seconds > 0
        house.back()
        late = house.post("20")  # behind those that wait
        await late
        state = await house.until_state("empty")
        assert house.target.bodies == [str(n) for n in range(21)]
        assert {topic for topic, _ in house.target.stored} == {"orders.eu"}
        assert house.target.stored[0][1] == Record(b"k", (("ce_id", b"0"),), b"0")
        assert (state.bytes, state.oldest_seconds) == (0, 0.0)
        await until(lambda: len(house.told) == 2)
        assert house.told == [
            ("spooling", "orders", {"cause": "away"}),
            ("spooled", "orders", {"repeats": 0}),
        ]
        (direct,) = await house.post("21")
        assert direct.broker == "main"


async def test_what_the_last_run_left_is_drained_first(house: SpoolHouse) -> None:
    async with house.running():
        for n in range(5):
            await house.post(str(n))
    async with house.running():
        house.back()
        await house.post("5")
        await house.until_state("empty")
    assert house.target.bodies == [str(n) for n in range(6)]


async def test_a_route_that_lost_its_setting_still_goes_behind_what_waits(
    house: SpoolHouse,
) -> None:
    """A restart finds the spool by its topic, and a reload has it."""
    async with house.running():
        await house.post("0")
        await house.reload(PLAIN)
        assert (await house.spools.states())[0].state == "removed"
    async with house.running(PLAIN):
        assert house.spools.routes == {"orders"}  # the router is told so
        assert (await house.spools.states())[0].state == "removed"
        house.back()
        await house.post("1")
        await until(lambda: len(house.target.stored) == 2)
    assert house.target.bodies == ["0", "1"]


async def test_the_spool_of_a_route_that_is_gone_is_drained_and_then_deleted(
    house: SpoolHouse,
) -> None:
    async with house.running():
        await house.post("0")
    async with house.running(NONE):
        assert (await house.spools.states())[0].state == "removed"
        house.back()
        await until(lambda: not house.spools.routes)
        driver = house.log.driver
        assert isinstance(driver, EmbeddedDriver)
        await until(lambda: "__spool.orders" not in driver.engine.topics())
    assert house.target.bodies == ["0"]


async def test_without_a_spool_nothing_wakes_to_look_at_one(
    house: SpoolHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def noted(_: SystemClock, seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(seconds)

    monkeypatch.setattr(spools, "STALL", 0.001)
    monkeypatch.setattr(spools, "LOOK", 0.001)
    monkeypatch.setattr(SystemClock, "sleep", noted)
    async with house.running(NONE):
        for _ in range(100):
            await asyncio.sleep(0)
        assert slept == []
        await house.reload(ROUTES)
        await until(lambda: slept.count(0.001) > 5)


async def test_a_spool_can_be_added_while_the_service_runs(house: SpoolHouse) -> None:
    async with house.running(NONE):
        await house.reload(ROUTES)
        (stored,) = await house.post("0")
        assert stored.topic == "__spool.orders"


async def test_a_route_that_a_reload_brings_back_keeps_the_spool_that_was_to_be_closed(
    house: SpoolHouse,
) -> None:
    """Else its events would be answered 500, or go to a spool that nothing drains."""
    async with house.running():
        await house.reload(NONE)
        back = house.config(ROUTES)
        await house.spools.prepare(change_to(back))
        await house.spools._close("orders")  # by a look that began before the reload
        house.spools.apply(back)
        (stored,) = await house.post("0")
        assert stored.topic == "__spool.orders"
        house.back()
        await house.until_state("empty")
    assert house.target.bodies == ["0"]


async def test_another_target_for_a_spool_needs_a_restart(house: SpoolHouse) -> None:
    """What waits is bound to the old target; the file is refused, and what runs goes on."""
    async with house.running():
        with pytest.raises(SetupError, match="restart the service"):
            await house.reload(ELSEWHERE)


async def test_what_the_target_refuses_later_is_a_dead_letter_and_the_key_goes_on(
    house: SpoolHouse,
) -> None:
    house.target.refused = {b"1"}
    async with house.running():
        for n in range(3):
            await house.post(str(n))
        house.back()
        await house.until_state("empty")
    assert house.target.bodies == ["0", "2"]
    (letter,) = house.store.letters.rows
    assert (letter.subscription, letter.cause) == ("spool:orders", "status-413")


async def test_a_record_that_the_target_refuses_unclearly_stops_nobody_but_its_key(
    house: SpoolHouse,
) -> None:
    """The other keys are published, which tells that the record is at fault; then its key goes on."""
    house.target.unclear = {b"bad"}
    async with house.running():
        await house.post("bad", b"k")
        for n in range(20):
            await house.post(str(n), b"%d" % n)
        await house.post("behind", b"k")
        house.back()
        await house.until_state("empty")
    assert sorted(house.target.bodies) == sorted([*map(str, range(20)), "behind"])
    (letter,) = house.store.letters.rows
    assert (letter.subscription, letter.cause) == ("spool:orders", "status-422")
    assert letter.attempts > 1


async def test_gateways_that_share_a_store_keep_the_rows_of_their_spools_apart(
    tmp_path: Path,
) -> None:
    """Two records at the same place of two spools: neither takes the other's row or its ownership."""
    store = MemoryStore()
    houses = [SpoolHouse(tmp_path / name, store) for name in ("0", "1")]
    for house in houses:
        house.folder.mkdir()
        house.target.refused = {b"no"}
    async with houses[0].running(), houses[1].running():
        for house in houses:
            await house.post("no")
            await house.post("yes")
            house.back()
        for house in houses:
            await house.until_state("empty")
            assert house.target.bodies == ["yes"]
    first, second = store.letters.rows
    places = {(each.message.partition, each.message.position) for each in (first, second)}
    assert len(places) == 1
    assert first.subscription != second.subscription
    assert all(each.subscription.startswith("spool:orders@") for each in (first, second))


async def test_a_spool_drains_once_whoever_shares_the_store(tmp_path: Path) -> None:
    """The position in the log does not depend on the roles of the process."""
    house = SpoolHouse(tmp_path)
    house.target.fault = None
    house.alone = False
    async with house.running(ROUTES.replace("outage", "always")):
        await house.post("0")
        await house.until_state("empty")
    house.alone = True
    async with house.running(ROUTES.replace("outage", "always")):
        await house.post("1")
        await until(lambda: len(house.target.stored) == 2)
    assert house.target.bodies == ["0", "1"]


async def test_a_spool_at_its_bound_is_a_503_and_takes_events_again_once_it_drained(
    house: SpoolHouse,
) -> None:
    async with house.running():
        large = "x" * 100_000
        results = [(await house.post(large, b"%d" % n))[0] for n in range(12)]
        refused = [each for each in results if not isinstance(each, Receipt)]
        assert {each.code for each in refused} == {"bound-reached"}
        assert 0 < len(refused) < len(results)
        house.back()
        await house.until_state("empty")
        assert isinstance((await house.post("more"))[0], Receipt)

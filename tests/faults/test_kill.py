"""SIGKILL at random moments, judged by a verifier that shares no code with the service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import delivery_installation
from delivery_installation import Installation, Ledger, numbered
from restarting_service import COMMIT_EVERY, CONCURRENCY, end_and_verify
from service_process import ServiceProcess
from verifier_process import Load
from waiting import until
from webhook_target import WebhookTarget

SHORT = Load(keys=100, per_key=10, kills=2)
FULL = Load(keys=200, per_key=100, kills=20)


def kill_and_verify(load: Load, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return end_and_verify(load, folder, ServiceProcess.kill)


def assert_kept(load: Load, delivered: dict[str, Any], stored: dict[str, Any]) -> None:
    assert delivered["acknowledged"] == stored["acknowledged"] == load.events
    assert (delivered["lost"], stored["lost"]) == (0, 0)
    assert (delivered["order_breaks"], stored["order_breaks"]) == (0, 0)
    # A kill may leave one event a connection stored without its answer; the sender repeats it.
    assert stored["duplicated"] <= load.kills * load.connections
    # Rule 2: what was in flight, and what was finished since the last commit, comes again.
    open_at_a_kill = CONCURRENCY + delivered["busiest_second"] * COMMIT_EVERY
    assert delivered["duplicated"] <= stored["duplicated"] + load.kills * open_at_a_kill


def assert_each_stored_once(load: Load, folder: Path) -> None:
    """Senders repeat everything, and what was on its way at a kill as well."""
    once = {"window": "1h"}
    delivered, stored = end_and_verify(load, folder, ServiceProcess.kill, deduplicate=once)
    assert_kept(load, delivered, stored)
    assert stored["duplicated"] == 0


EVENTS, KEYS = 50, 7


async def kill_at_rest(rounds: int, house: Installation, ledger: Ledger) -> None:
    """``rounds`` times: 50 events are delivered, the lag is told as 0, the service is killed at once."""
    service = await house.service()
    for number in range(rounds):
        await service.publish(numbered(number * EVENTS, EVENTS, KEYS))
        told = (number + 1) * EVENTS
        await until(lambda told=told: len(ledger.taken) >= told, f"{told} deliveries")
        await service.until_no_lag()
        await service.kill()
        await service.start()
    last = rounds * EVENTS
    await service.publish(
        numbered(last, 1, KEYS)
    )  # behind whatever the last kill would bring again
    await until(lambda: last in ledger.numbers, "the event behind the last kill")
    await service.until_no_lag()
    await service.stop()
    assert Counter(number for _, number in ledger.taken) == Counter(range(last + 1))


@pytest.fixture
def house(tmp_path: Path, target: WebhookTarget) -> Iterator[Installation]:
    house = Installation(tmp_path, {"kind": "embedded", "path": str(tmp_path / "log")}, target)
    yield house
    house.close()


@pytest.mark.fault
async def test_a_kill_after_lag_0_was_told_repeats_nothing(house, ledger):
    """What is told as committed is on the disk (rule 2)."""
    await kill_at_rest(2, house, ledger)


@pytest.mark.fault
@pytest.mark.nightly
async def test_twenty_kills_after_lag_0_was_told_repeat_nothing(house, ledger):
    """The full count of the same claim (rule 2)."""
    await kill_at_rest(20, house, ledger)


@pytest.mark.fault
async def test_a_kill_while_an_event_waits_repeats_what_was_in_flight(house, ledger):
    """What is finished is committed with the next events that are stored, also above an open one (rule 2)."""
    house.schedule = ["1h"] * 3  # for number 0, and with it its key k0; the others succeed at once
    ledger.busy = lambda request: request.id == "0"
    service = await house.service()
    await service.publish(numbered(0, 400, keys=20))
    done = {number for number in range(400) if number % 20}
    await until(lambda: ledger.numbers == done, "the other keys delivered")
    # Of key k0. A commit goes along with a commit group, but not with each: a busy log bounds their positions a second.
    later = range(400, 800, 20)
    for number in later:
        await service.publish(numbered(number, 1, keys=20))
    await service.kill()
    ledger.busy = lambda _: False
    await service.start()
    everything = {*range(400), *later}
    await until(lambda: ledger.numbers == everything, "everything delivered")
    assert ledger.repeats <= delivery_installation.CONCURRENCY
    await service.stop()


@pytest.mark.fault
def test_two_kills_in_1000_events_lose_nothing_and_keep_the_order_of_every_key(tmp_path):
    """Acknowledged means kept, through SIGKILL at any moment (reliability G1, G3, R3, R4)."""
    assert_kept(SHORT, *kill_and_verify(SHORT, tmp_path))


@pytest.mark.fault
@pytest.mark.nightly
def test_twenty_kills_in_20000_events_lose_nothing_and_keep_the_order_of_every_key(tmp_path):
    """The full count of the same claim (reliability G1, G3, R3, R4)."""
    assert_kept(FULL, *kill_and_verify(FULL, tmp_path))


@pytest.mark.fault
def test_through_two_kills_a_repeated_event_is_stored_once(tmp_path):
    """``deduplicate``: identities are in the transaction of the records (guarantees)."""
    assert_each_stored_once(Load(keys=100, per_key=5, kills=2, twice=True), tmp_path)


@pytest.mark.fault
@pytest.mark.nightly
def test_through_twenty_kills_a_repeated_event_is_stored_once(tmp_path):
    """The full count of the same claim."""
    assert_each_stored_once(Load(keys=200, per_key=50, kills=20, twice=True), tmp_path)

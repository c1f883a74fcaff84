"""The process that delivers is killed again and again, from each broker: nothing lost, order per key kept,
no more repeats than rule 2 allows (reliability R4). The judge is the webhook's own account.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from delivery_house import House, Ledger, numbered, until
from webhook_target import WebhookTarget

pytestmark = pytest.mark.fault

SEED_OF_BUSY = 7  # every seventh request is answered 503: a kill also meets keys that wait


class Load(NamedTuple):
    events: int
    keys: int
    kills: int
    within: float  # seconds for each round


SHORT = Load(events=2_000, keys=50, kills=2, within=180)
FULL = Load(events=50_000, keys=500, kills=20, within=600)


def housed(
    broker: str, folder: Path, target: WebhookTarget, request: pytest.FixtureRequest
) -> House:
    match broker:
        case "embedded":
            path = str(folder / "log")
            return House(folder, {"kind": "embedded", "path": path}, target)
        case "kafka":
            servers = request.getfixturevalue("kafka")
            settings = {"kind": "kafka", "bootstrap_servers": servers, "session_timeout": "2s"}
            return House(folder, settings, target)
        case "rabbitmq":
            address = request.getfixturevalue("rabbitmq")
            return House(folder, {"kind": "rabbitmq", "addresses": address}, target)
        case _:
            service, admin = request.getfixturevalue("pulsar")
            settings = {"kind": "pulsar", "service_url": service, "admin_url": admin}
            return House(folder, settings, target)


BROKERS = [
    "embedded",
    *(pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("kafka", "rabbitmq", "pulsar")),
]  # fmt: skip


@pytest.fixture(params=BROKERS)
def house(request: pytest.FixtureRequest, tmp_path: Path, target: WebhookTarget) -> Iterator[House]:
    house = housed(request.param, tmp_path, target, request)
    yield house
    house.close()


async def kill_while_delivering(house: House, ledger: Ledger, load: Load) -> None:
    requests = 0

    def busy(_: object) -> bool:
        nonlocal requests
        requests += 1
        return requests % SEED_OF_BUSY == 0

    ledger.busy = busy
    service = await house.service()
    await service.publish(numbered(0, load.events, load.keys))
    may_repeat = 0
    for number in range(1, load.kills + 1):
        goal = load.events * number // (load.kills + 1)
        await until(lambda goal=goal: len(ledger.numbers) >= goal, f"{goal}", load.within)
        may_repeat += ledger.at_stake()
        await service.kill()
        await service.start()
    await until(lambda: len(ledger.numbers) == load.events, "everything delivered", load.within)
    assert ledger.out_of_order() == {}
    print(f"{load.kills} kills, {ledger.repeats} repeats of at most {may_repeat}")
    assert ledger.repeats <= may_repeat
    await service.stop()


async def test_kills_while_delivering_lose_nothing_and_repeat_what_was_at_stake(
    house: House, ledger: Ledger
) -> None:
    await kill_while_delivering(house, ledger, SHORT)


@pytest.mark.long
@pytest.mark.timeout(1_200)
async def test_twenty_kills_in_fifty_thousand_deliveries(house: House, ledger: Ledger) -> None:
    await kill_while_delivering(house, ledger, FULL)

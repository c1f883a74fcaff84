"""Keys that cannot be delivered park, in a real process with its real store, through SIGKILL and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from delivery_installation import Installation, Ledger, RefuseSource, numbered
from waiting import until
from webhook_target import WebhookTarget, status

pytestmark = pytest.mark.fault

KEYS = 20
STUCK = "/k3"
RETRY = {"schedule": ["10ms", "200ms", *["1s"] * 200], "hold": 1}
NOT_THIS_ONE = status(409)


class EmbeddedHouse(Installation):
    """On the log of the service itself, whose topics come to be by their first event."""

    @property
    def topics(self) -> dict[str, Any]:
        return {"partitions": self.partitions}


@pytest.fixture
def house(tmp_path: Path, target: WebhookTarget) -> Iterator[Installation]:
    house = EmbeddedHouse(tmp_path, {"kind": "embedded", "path": "log"}, target)
    yield house
    house.close()


async def test_one_stuck_key_parks_and_everything_survives_sigkill_in_order(
    house: Installation, target: WebhookTarget, ledger: Ledger
) -> None:
    """Rules 4 and 5: others go on while it is stuck, a kill loses nothing, and it is live again after."""
    target.answer = stuck = RefuseSource(ledger, STUCK, NOT_THIS_ONE)
    service = await house.service(hook={"sink": target.url, "retry": RETRY})
    await service.publish(numbered(0, 400, KEYS))
    others = {number for number in range(400) if number % KEYS != 3}
    await until(lambda: ledger.numbers == others, "all other keys delivered")
    for kill in range(3):
        await service.kill()
        await service.start()
        await service.publish(numbered(400 + 100 * kill, 100, KEYS))
    others = {number for number in range(700) if number % KEYS != 3}
    await until(lambda: ledger.numbers == others, "all other keys delivered after the kills")
    await service.until_parked(35)
    stuck.mended = True
    await until(lambda: ledger.numbers == set(range(700)), "the stuck key delivered")
    assert ledger.out_of_order() == {}
    await service.until_parked(0)
    await service.publish(numbered(700, 100, KEYS))
    await until(lambda: ledger.numbers == set(range(800)), "the key is live again")
    assert ledger.out_of_order() == {}
    await service.until_parked(0)
    await service.stop()

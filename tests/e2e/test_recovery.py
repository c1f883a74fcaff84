"""docs/recovery.md, as it happens: a disk is lost, a file is torn; what is stated to be lost is all that is."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from delivery_installation import (
    Installation,
    Ledger,
    RefuseSource,
    Service,
    numbered,
    steady_publisher,
)
from forked import completed
from waiting import until
from webhook_target import WebhookTarget, status

pytestmark = pytest.mark.fault

KEYS = 20
STUCK = "/k3"
RETRY = {"schedule": ["10ms", "200ms", *["1s"] * 200], "hold": 1}
REFUSED = status(409)


@pytest.fixture
def house(tmp_path: Path, target: WebhookTarget) -> Iterator[Installation]:
    house = Installation(tmp_path, {"kind": "embedded", "path": "log"}, target)
    yield house
    house.close()


async def store_verb(service: Service, *words: str) -> str:
    """``skybridge store`` beside the service, as an operator runs it."""
    verb = ("store", *words, "--config", "skybridge.yaml")
    done = await asyncio.to_thread(completed, *verb, cwd=service.folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lose(service: Service) -> None:
    """The volume, with all that was on it."""
    shutil.rmtree(service.folder / "log")
    for file in service.folder.glob("store.db*"):
        file.unlink()


async def test_a_lost_volume_costs_what_was_accepted_since_the_backup_and_no_more(
    house: Installation, target: WebhookTarget, ledger: Ledger
) -> None:
    """Issue 9, 8. What waits in the store is in it too; owners after it are newer than those before (rule 5),
    and each key goes on in its order."""
    target.answer = stuck = RefuseSource(ledger, STUCK, REFUSED)
    service = await house.service(hook={"sink": target.url, "retry": RETRY})
    async with steady_publisher(service) as publishing:
        await publishing.until_more(ledger, 200)
        before = publishing.published
        copied = await store_verb(service, "backup", "copy")
        await publishing.until_more(ledger, 100)
    assert "log-main.db" in copied
    await service.kill()
    lose(service)
    told = await store_verb(service, "restore", "copy")
    assert "log main: log is restored from copy" in told
    stuck.mended = True
    await service.start()
    late = range(1_000_000, 1_000_000 + 100)
    await service.publish(numbered(late.start, len(late), KEYS))
    due = {*range(before), *late}
    await until(
        lambda: ledger.numbers >= due, "all that was accepted before the backup, and after it"
    )
    assert ledger.out_of_order() == {}
    await service.until_parked(0)
    await service.stop()


@pytest.mark.nightly
async def test_a_torn_log_is_refused_by_name_and_a_backup_takes_its_place(
    house: Installation, target: WebhookTarget, ledger: Ledger
) -> None:
    """Never a start on half a log: what is there is kept for whoever can read it."""
    target.answer = ledger
    service = await house.service()
    await service.publish(numbered(0, 100, KEYS))
    await until(lambda: len(ledger.numbers) == 100, "all delivered")
    await store_verb(service, "backup", "copy")
    await service.stop()
    file = service.folder / "log" / "log.db"
    torn = b"\0" * 4096 + file.read_bytes()[4096:]
    file.write_bytes(torn)
    with pytest.raises(RuntimeError, match="restore"):
        await service.start()
    await store_verb(service, "restore", "copy")
    assert (service.folder / "log" / "log.db.before-restore-1").read_bytes() == torn
    await service.start()
    await service.publish(numbered(100, 100, KEYS))
    await until(lambda: ledger.numbers == set(range(200)), "the new ones delivered")
    await service.stop()

"""What ``find`` reads from the store for one event is bounded in bytes too."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.api.find.records import WantedEvent
from app.api.find.rows import rows_of
from app.api.http import parameters
from app.api.http.slices import Slices
from letters_service import Service, a_letter, a_message, a_row

LARGE = b'"%b"' % (b"y" * 2_000)


async def test_rows_of_one_event_are_read_up_to_a_number_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand rows of 1 MiB that have the same id were read at once."""
    monkeypatch.setattr(parameters, "AT_ONCE", 5)
    monkeypatch.setattr(parameters, "PAGE_BYTES", 10 * len(LARGE))
    service = Service(tmp_path)
    await service.store.start()
    try:
        for place in range(30):
            letter = a_letter(7, message=a_message(place, body=LARGE))
            await service.store.letters.add(letter)
        await service.store.parked.park([a_row(7, key=b"a")])
        rows, looked = await rows_of(
            service.store, service, WantedEvent("7", None, None), 0, Slices()
        )  # type: ignore[arg-type]
    finally:
        await service.store.stop()
    assert 0 < len(rows.letters) < 15
    assert len(rows.parked) == 1
    complete = {each.where: each.complete for each in looked}
    assert (complete["store dead_letters"], complete["store parked"]) == (False, True)

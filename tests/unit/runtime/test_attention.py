"""What a process finds for alerts while its store does not answer."""

from __future__ import annotations

from app.api.http.given import ServiceParts
from app.delivery.alert_plan import ProcessFindings
from app.features.attention import AttentionReader
from app.interfaces import Store
from memory_store import MemoryStore
from verdict_samples import FAILS


class Reader(AttentionReader):
    """A reader whose status takes no time, and which counts how often it was asked."""

    def __init__(self, store: MemoryStore) -> None:
        given = ServiceParts()
        given.add(Store, store)
        super().__init__(given)
        self.asked = 0

    async def _findings(self) -> ProcessFindings:
        self.asked += 1
        return ProcessFindings((FAILS,), ("producer shop",))


async def test_a_store_that_is_away_is_one_question_and_hides_nothing_that_was_known() -> None:
    """A locked database answers each question after its time-out only: the status asks about ten of them."""
    store = MemoryStore()
    reader = Reader(store)
    well = await reader.findings()
    store.trouble = "no answer in 5 s"
    away = await reader.findings()
    assert reader.asked == 1
    assert [each.name for each in away.verdicts] == ["store-away", "endpoint-fails"]
    assert away.verdicts[0].detail == "no answer in 5 s"
    assert away.active == well.active
    store.trouble = ""
    assert (await reader.findings()) == well

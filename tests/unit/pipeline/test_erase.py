"""What an erasure asks of Iceberg. What it leaves: tests/pipeline/test_archive.py, test_verbs.py."""

from __future__ import annotations

import json
import re
from unittest.mock import MagicMock

import pytest

from app.errors import SetupError
from app.pipeline import erase, history
from app.pipeline.settings import Lake
from app.spark.settings import LakeCatalog

LAKE = Lake(LakeCatalog("jdbc", "jdbc:sqlite:/lake/catalog.db", "file:///lake"))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """The table as Iceberg loads it."""
    found = MagicMock()
    monkeypatch.setattr(history, "iceberg_table", lambda *_: found)
    return found


def test_a_snapshot_of_a_clock_that_is_ahead_goes_too(
    monkeypatch: pytest.MonkeyPatch, loaded: MagicMock
) -> None:
    """The newest snapshot is ours, an earlier one was made by a machine whose clock is a second ahead.
    It goes even if the table was rolled back to an older one."""
    java = MagicMock()
    monkeypatch.setattr(erase, "jvm", lambda _: java)
    made = (5_000, 6_000, 1_000)
    loaded.snapshots.return_value = [MagicMock(**{"timestampMillis.return_value": n}) for n in made]
    erase._remove_old_files(MagicMock(), LAKE, "events", 1)
    expiring = java.org.apache.iceberg.spark.actions.SparkActions.get.return_value.expireSnapshots
    [(edge,), _] = expiring.return_value.expireOlderThan.call_args
    assert edge > max(made)


def test_a_tag_that_would_keep_the_rows_is_named_before_anything_is_erased(
    loaded: MagicMock,
) -> None:
    refs = {"main": MagicMock(), "end of year": MagicMock(**{"isBranch.return_value": False})}
    loaded.refs.return_value = refs
    with pytest.raises(SetupError, match="nothing was erased: end of year") as refused:
        erase._demand_no_refs(MagicMock(), LAKE, "events")
    assert refused.value.cure.startswith("ALTER TABLE lake.skybridge.events DROP TAG `end of year`")
    del refs["end of year"]
    erase._demand_no_refs(MagicMock(), LAKE, "events")


@pytest.mark.parametrize(
    "text", ["customer-4711", "/shops/closed", "Zoë+Ann <z@x>", 'a"b\\c', "tab\there", "😀", "(.*)"]
)
def test_an_invalid_record_is_found_in_every_spelling_of_json(text: str) -> None:
    """MUST (RFC 8259, 7): any character may be escaped, in capital or small digits."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    spellings = [
        json.dumps(text),
        json.dumps(text, ensure_ascii=False),
        json.dumps(text).replace("/", "\\/"),
        "".join(('"', *(f"\\u{code:04x}" for code in codes), '"')),
        "".join(('"', *(f"\\u{code:04X}" for code in codes), '"')),
    ]
    pattern = erase.json_pattern(text)
    for each in spellings:
        assert json.loads(each) == text
        assert re.search(pattern, f'{{"subject": {each}')
    for other in ("customer-47110", "xcustomer-4711", "customer.4711"):
        assert not re.search(pattern, json.dumps(other))

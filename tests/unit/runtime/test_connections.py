"""``check --connect``: what it says of a broker that cannot be opened."""

from __future__ import annotations

import os
from pathlib import Path

from app.config.load.loader import Loaded, load
from app.features.brokers.logs import open_logs
from app.features.checks.connections import check_connections

YAML = """
version: 1
store: {{kind: sqlite, path: {folder}/store.db}}
brokers: {{log: {{kind: embedded, path: {folder}/log}}}}
routes: [{{name: everything, to: {{broker: log, topic: events}}}}]
"""


async def test_a_log_in_use_is_a_warning_with_its_process_and_cure(tmp_path: Path) -> None:
    """ "Start it" would be the wrong advice: it runs already, and may be the service of this very file."""
    loaded = written(tmp_path)
    log = open_logs(loaded.config)["log"]
    await log.start()
    try:
        ((finding,), well) = await check_connections(loaded, 60.0)
    finally:
        await log.stop()
    assert (finding.setting, finding.line, finding.level) == ("brokers.log.path", 4, "warning")
    assert f"process {os.getpid()}" in finding.message
    assert "Cure" not in finding.message
    assert finding.cure.startswith(f"stop process {os.getpid()}")
    assert [line.partition(":")[0] for line in well] == ["store"]


async def test_what_is_well_is_said_too(tmp_path: Path) -> None:
    """Silence would not tell a look that found nothing wrong from one that never took place."""
    found = await check_connections(written(tmp_path), 60.0)
    assert found.findings == []
    assert found.well == [
        "store: sqlite, usable",
        "brokers.log: embedded, answers; its topics 1 to publish to and 0 to read from are usable",
    ]


def written(folder: Path) -> Loaded:
    file = folder / "sky.yaml"
    file.write_text(YAML.format(folder=folder))
    return load(file, {})


async def test_a_start_that_is_not_held_is_a_warning(tmp_path: Path) -> None:
    """It matters only to a subscription that has not begun."""
    file = tmp_path / "sky.yaml"
    start = '{position: {0: "4", 9: "0"}}'
    source, sink = "{broker: log, topics: [events]}", "https://example.org/"
    file.write_text(
        YAML.format(folder=tmp_path)
        + f"subscriptions: [{{id: s, source: {source}, sink: '{sink}', start: {start}}}]\n"
    )
    loaded = load(file, {})
    log = open_logs(loaded.config)["log"]
    await log.start()
    await log.create_topic("events", 8)
    await log.stop()
    found, _ = await check_connections(loaded, 60.0)
    assert [each.level for each in found] == ["warning", "warning"]
    assert "The partition events/0 has positions 0 to 0, and not '4'." in found[0].message
    assert "no partition 9" in found[1].message

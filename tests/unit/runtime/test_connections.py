"""``check --connect``: what it says of a broker that cannot be opened."""

from __future__ import annotations

from pathlib import Path

from app.config.load import load
from app.runtime.connections import check_connections
from app.runtime.logs import open_logs

YAML = """
version: 1
brokers: {{log: {{kind: embedded, path: {folder}/log}}}}
routes: [{{name: everything, to: {{broker: log, topic: events}}}}]
"""


async def test_a_log_in_use_is_said_with_its_own_setting_and_cure(tmp_path: Path) -> None:
    """ "Start it" would be the wrong advice: it runs already."""
    file = tmp_path / "sky.yaml"
    file.write_text(YAML.format(folder=tmp_path))
    loaded = load(file, {})
    log = open_logs(loaded.config)["log"]
    await log.start()
    try:
        (finding,) = await check_connections(loaded, 5.0)
    finally:
        await log.stop()
    assert (finding.setting, finding.line) == ("brokers.log.path", 3)
    assert "another process" in finding.message
    assert "Cure" not in finding.message
    assert finding.cure.startswith("stop the other process")

"""What somebody at a shell waits for: a few events into the lake, and one question to it, the start included.

    python tests/bench/pipeline_shell.py [--rounds N]

``archive`` copies and decodes 2,000 events that wait in a real Kafka, into a lake that is not there yet. ``query`` then
counts them by type. Each round has a folder of its own; the best of them counts, and not the first, which writes bytecode.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, sleep
from typing import Final

import pipeline_events
from cost import cpu_of_tree
from pipeline_archive import fill
from pipeline_cpu import Cost
from pipeline_figures import Figure, sized, told

from kafka_server import KafkaServer
from lake_events import make_topic

WAITING: Final = 2_000
_LOOK: Final = 0.05  # seconds
TARGETS: Final = {"archive": 25.0, "query": 3.0}
"""Seconds."""
WORDS: Final = {
    "archive": ("archive", "--once"),
    "query": ("query", "SELECT type, count(*) AS n FROM events GROUP BY type ORDER BY n DESC"),
}
NAMES: Final = {
    "archive": f"shell: archive --once, {WAITING:,} waiting events",
    "query": "shell: query, events by type",
}
CONFIG: Final = """version: 1
installation: bench
brokers:
  main: {{kind: kafka, bootstrap_servers: "{servers}"}}
routes:
  - {{name: all, to: {{broker: main, topic: unused}}}}
pipeline:
  lake: {{warehouse: "{folder}/lake"}}
  archive: {{topics: [{topic}], trigger: {trigger}, metrics: "{metrics}"}}
  spark: {{master: "local[2]"}}
"""
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as it is installed: with bytecode
SKYBRIDGE: Final = Path(sys.executable).with_name("skybridge")


def configured(
    folder: Path,
    servers: str,
    topic: str,
    metrics: str = "127.0.0.1:0",
    trigger: str = "5s",
) -> Path:
    """A configuration file, whose lake is in the folder."""
    folder.mkdir()
    file = folder / "skybridge.yaml"
    told = {"servers": servers, "topic": topic, "metrics": metrics, "trigger": trigger}
    file.write_text(CONFIG.format(folder=folder, **told))
    return file


def timed(words: Sequence[str], config: Path) -> Cost:
    """A verb as a process: what it took by the clock, and of CPU with all that it has started."""
    began = perf_counter()
    command = [str(SKYBRIDGE), "pipeline", *words, "--config", str(config)]
    used = 0.0  # Java is nobody's child when the verb ends: it is looked at while it lives
    with subprocess.Popen(command, cwd=config.parent, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            used = max(used, cpu_of_tree(process.pid))
            sleep(_LOOK)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} has failed with code {process.returncode}")
    return Cost(perf_counter() - began, used)


def figures(rounds: Sequence[dict[str, Cost]]) -> list[Figure]:
    found = []
    for name, target in TARGETS.items():
        best = min((each[name] for each in rounds), key=lambda cost: cost.seconds)
        shown = f"{best.seconds:.1f} s, {best.cpu:.1f} s of CPU"
        found.append(Figure(NAMES[name], shown, best.seconds, target, most=True))
    return found


def main() -> int:
    asked = sized(__doc__, short=WAITING, usual=WAITING, rounds=2).parse_args()
    kafka = KafkaServer(brief=False)
    kafka.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            make_topic(kafka.bootstrap_servers, "waiting", 4)
            pipeline_events.write(Path(folder, "events"), WAITING)
            fill(kafka.bootstrap_servers, "waiting", Path(folder, "events"))
            rounds = []
            for turn in range(1 + asked.rounds):
                config = configured(Path(folder, str(turn)), kafka.bootstrap_servers, "waiting")
                rounds.append({name: timed(words, config) for name, words in WORDS.items()})
    finally:
        kafka.stop()
    return told(figures(rounds[1:]), asked.json)


if __name__ == "__main__":
    raise SystemExit(main())

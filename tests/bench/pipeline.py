"""``make bench-pipeline``: the pipeline on Spark, beside what it has to be.

    python tests/bench/pipeline.py [--short] [--events N] [--rounds N] [--only decode,archive,report,shell,live] [--write PAGE]

``decode``   the decoder by column beside the bindings row by row, from Parquet to nowhere.
``archive``  decode-and-append, and the whole archive, beside a bare copy of the same records of a real Kafka
             into Iceberg.
``report``   ``skybridge pipeline report``, from the shell to the page.
``shell``    2,000 waiting events into a new lake, and a question to it, from the shell.
``live``     an archive beside a feed of 1,500 events a second: the lag of the lake, its memory and files.

Each is a process, one after the other, on as many events. Targets hold for 2,000,000 on a machine that does
nothing else: ``--events 2000000``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import msgspec
import table
from pipeline_figures import HEADINGS, Figure, sized

PARTS = ("decode", "archive", "report", "shell", "live")
TITLES = {
    "decode": "## Decode\n",
    "archive": "## Archive, beside a bare copy\n",
    "report": "## Report\n",
    "shell": "## From the shell\n",
    "live": "## Live\n",
}
_USUAL, _SHORT = 200_000, 20_000
_WITHIN = 7200  # seconds for a part

PAGE = """# Figures of the pipeline

Written by the commands below and by nothing else; how to read it is in the [pipeline](pipeline.md). Events have about 1 kB. Of the
rounds of a part, in turn, the best counts, each way after one that warms up. Targets hold for 2,000,000 events.
"""


def measured(part: str, events: int, rounds: int, folder: Path) -> list[Figure]:
    """By a process of its own: a Spark that another part has warmed would be another Spark. Whether targets are
    met does not end the run.
    """
    file, script = folder / f"{part}.json", Path(__file__).with_name(f"pipeline_{part}.py")
    print(f"\n{part}: {events:,} events", flush=True)
    command = [
        sys.executable,
        str(script),
        "--events",
        str(events),
        "--rounds",
        str(rounds),
        "--json",
        str(file),
    ]
    done = subprocess.run(command, check=False, timeout=_WITHIN)
    if not file.exists():
        raise SystemExit(f"{part} has failed with code {done.returncode}")
    return msgspec.json.decode(file.read_bytes(), type=list[Figure])


def written(page: str, part: str, found: list[Figure], asked: Namespace, load: float) -> str:
    """The page with what was found of a part, in place of what it had."""
    size = (
        f"{asked.events:,} events, {asked.rounds} round{'s' * (asked.rounds > 1)}, on `local[2]`."
    )
    command = f"--only {part} --events {asked.events} --rounds {asked.rounds} --write {asked.write}"
    notes = [size, f"Load of the machine before the first part: {load:.1f}."]
    told = table.part(TITLES[part], found, HEADINGS, f'make bench-pipeline ARGS="{command}"', notes)
    return table.with_part(page, part, told, PARTS)


def main(arguments: list[str]) -> int:
    parser = sized(__doc__, short=_SHORT, usual=_USUAL, rounds=2)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--write", type=Path, help="write the page of figures here")
    asked = parser.parse_args(arguments)
    events = asked.events = _SHORT if asked.short else asked.events
    if unknown := set(asked.only.split(",")) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="skybridge-bench-") as folder:
        by_part = {
            part: measured(part, events, asked.rounds, Path(folder))
            for part in PARTS
            if part in asked.only.split(",")
        }
    found = [figure for each in by_part.values() for figure in each]
    print("", table.text(found, HEADINGS), sep="\n")
    if asked.json:
        asked.json.write_bytes(msgspec.json.encode(found))
    if asked.write:
        page = asked.write.read_text() if asked.write.exists() else PAGE
        for part, each in by_part.items():
            page = written(page, part, each, asked, load)
        asked.write.write_text(page)
    return 0 if asked.short or all(figure.met for figure in found) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

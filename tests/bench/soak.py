"""``make soak``: half the load that this machine carries for half an hour. Does anything grow?

::

    python tests/bench/soak.py                                  30 minutes on the embedded log and on Kafka
    python tests/bench/soak.py --minutes 2 --log embedded       does it work?
    python tests/bench/soak.py --rate 500 --write docs/soak.md  so many events a second of each log; also as a page

Ends with an error if something grows or an event is lost. With ``--samples FILE`` every sample is kept there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lab
import soak_page
import table
from logs import create_topics
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from soak_house import KEPT, WITHIN, House, Sample
from soak_page import Soaked

from kafka_server import KafkaServer
from waiting import wait_until

NAMES = {"embedded": "the embedded log", "kafka": "Kafka"}
MEASURED = 10.0  # seconds of load without a bound, to see what is carried
KAFKA = {"log.retention.bytes": str(8 << 20), "log.segment.bytes": str(8 << 20)}


def broker(log: str, folder: Path, kafka: KafkaServer | None) -> dict[str, Any]:
    if kafka is not None and log == "kafka":
        return {"kind": "kafka", "bootstrap_servers": kafka.bootstrap_servers}
    return {"kind": "embedded", "path": str(folder / "log"), "retention": {"size": KEPT}}


def carried(house: House) -> float:
    """Events a second, from the first to the last delivery, of as many as are taken in ten seconds."""
    house.start()
    try:
        began = time.monotonic()
        told = lab.result_of(house.load(0, MEASURED))
        wait_until(lambda: house.sunk().delivered >= told["acknowledged"], "all deliveries", WITHIN)
        return float(told["acknowledged"] / (time.monotonic() - began))
    finally:
        house.stop()


def soak(
    houses: Sequence[House], rates: Sequence[float], seconds: float, every: float
) -> list[Any]:
    """Of each what its load said, what its webhook had, its samples, its cores, its exit code."""
    for house in houses:
        house.start()
    loads = [house.load(rate, seconds) for house, rate in zip(houses, rates, strict=True)]
    samples: list[list[Sample]] = [[] for _ in houses]
    with _bar() as bar:
        task, began = bar.add_task("soak", total=seconds), time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            for house, of in zip(houses, samples, strict=True):
                of.append(house.sample())
            newest = ", ".join(f"{each[-1].memory:.1f} MB" for each in samples)
            bar.update(task, completed=passed, description=f"soak: {newest}")
            time.sleep(min(every, max(0.0, seconds - passed)))
    told = [lab.result_of(load) for load in loads]
    return [_ended(*each) for each in zip(houses, told, samples, strict=True)]


def _ended(house: House, told: dict[str, Any], samples: list[Sample]) -> Any:
    wait_until(
        lambda: house.sunk().delivered >= told["acknowledged"], "all deliveries", WITHIN, turn=0.1
    )
    cores, code = house.core(), house.service.stop()
    return told, house.sunk(), samples, cores, code


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True))


def run(logs: Sequence[str], options: argparse.Namespace) -> list[Soaked]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skybridge-soak-")))
        kafka = None
        if "kafka" in logs:
            kafka = KafkaServer(KAFKA, brief=False)
            stack.callback(kafka.stop)
            kafka.start()
            create_topics(kafka.bootstrap_servers)

        def house(log: str, what: str) -> House:
            place = folder / f"{log}-{what}"
            return House(NAMES[log], place, broker(log, place, kafka))

        most = [0.0 if options.rate else carried(house(log, "measured")) for log in logs]
        rates = [options.rate or each / 2 / len(logs) for each in most]
        print(f"events a second: {rates}, of {most}", file=sys.stderr)
        houses = [house(log, "soak") for log in logs]
        for each in houses:
            stack.callback(each.stop)
        found = soak(houses, rates, options.minutes * 60, options.every)
        return [
            Soaked(NAMES[log], rate, full, *of)
            for log, rate, full, of in zip(logs, rates, most, found, strict=True)
        ]


def written(kept: dict[str, Any], place: Path) -> None:
    """The page, and its drawing beside it."""
    found, drawing = soak_page.again(kept), place.with_suffix(".svg")
    drawing.write_text(soak_page.drawing(found))
    place.write_text(soak_page.page(found, kept["command"], drawing.name, kept["machine"]))


def command_of(options: argparse.Namespace) -> str:
    rate = f" --rate {options.rate:g}" if options.rate else ""
    said = f"--minutes {options.minutes:g} --log {options.log}{rate} --write docs/soak.md"
    return f'make soak ARGS="{said}"'


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--log", choices=[*NAMES, "both"], default="both")
    parser.add_argument("--rate", type=float, help="events a second of each log; else measured")
    parser.add_argument("--every", type=float, default=5, help="seconds between samples")
    parser.add_argument("--samples", type=Path, help="keep every sample here, as JSON")
    parser.add_argument("--again", type=Path, help="run nothing: judge what --samples kept there")
    parser.add_argument("--write", type=Path, help="write the page here, its drawing beside it")
    options = parser.parse_args(arguments)
    if options.again:
        kept = json.loads(options.again.read_text())
    else:
        logs = list(NAMES) if options.log == "both" else [options.log]
        kept = soak_page.kept(run(logs, options), command_of(options))
    if options.samples:
        options.samples.write_text(json.dumps(kept))
    if options.write:
        written(kept, options.write)
    return told(soak_page.again(kept))


def told(found: Sequence[Soaked]) -> int:
    """The code to leave with."""
    print(table.text(soak_page.lines(found), soak_page.HEADINGS))
    print(table.text([soak_page.Account(each) for each in found], soak_page.ACCOUNT))
    faults = [fault for each in found for fault in each.faults()]
    print("\n".join(faults) or "It holds.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

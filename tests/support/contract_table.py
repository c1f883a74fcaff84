"""Run the broker contract on every log and write the results as a page, for ``make contract``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from app.brokers import embedded, kafka, pulsar, rabbitmq
from app.model.capabilities import Capabilities
from broker_contract import BrokerContract
from contract_groups import GroupCases
from contract_positions import PlaceCases
from contract_records import RecordCases
from contract_report import FAILED, LOGS
from contract_running import RunningCases
from contract_tools import SERVER

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contract.md"
FILES = (
    "test_embedded.py",
    "test_kafka.py",
    "test_kafka_on_embedded.py",
    "test_rabbitmq.py",
    "test_rabbitmq_streams.py",
    "test_pulsar.py",
)

CAPABILITIES: Mapping[str, Capabilities] = {
    "embedded": embedded.CAPABILITIES,
    "Kafka": kafka.CAPABILITIES,
    "embedded, by its Kafka listener": kafka.CAPABILITIES,  # the driver is Kafka's
    "RabbitMQ, queues": rabbitmq.CAPABILITIES,
    "RabbitMQ, streams": rabbitmq.STREAM_CAPABILITIES,
    "Pulsar": pulsar.CAPABILITIES,
}
__all__ = ["CAPABILITIES", "COLUMNS", "PARTS", "SERVER", "cases", "in_words", "page"]

COLUMNS = tuple(CAPABILITIES)
PARTS = {
    "What a record keeps": RecordCases,
    "Groups, members and what is finished": GroupCases,
    "Where a group starts, and what is read without one": PlaceCases,
    "Bounds, health, outages, endings": RunningCases,
}

INTRODUCTION = """# The contract of the logs

<!-- Written by `make contract` from a run of tests/contract on real servers. -->

One suite runs unchanged on every log. A cell is the result of a case: *held*; *held but for* a
capability that the log declares as missing, while the rest of the case was run; or *without* one, if
no part of the case could be run. Missing capabilities are declared in the code, never skipped by hand. A case that
kills *a server* has none on the log in the process itself; `tests/faults` kills that process.

RabbitMQ writes its list of queues to disk seconds after it confirmed them. The tests make it write the list before a kill:
a quorum queue or stream whose node dies moments after its declaration may not accept publishes within the 10 s
that every other restart keeps ([ADR 0013](adr/0013-rabbitmq-queues.md)).
"""


def cases(part: type) -> list[str]:
    """Return the names of the test cases of a class, those of its bases first."""
    found = (name for each in reversed(part.__mro__) for name in vars(each))
    return [name for name in found if name.startswith("test_")]


def in_words(case: str) -> str:
    return case.removeprefix("test_").replace("_", " ")


def page(verdicts: Mapping[str, Mapping[str, str]]) -> str:
    parts = [INTRODUCTION]
    for title, part in PARTS.items():
        rows = [
            [in_words(case), *(verdicts.get(log, {}).get(case, "not run") for log in COLUMNS)]
            for case in cases(part)
        ]
        parts.append(f"## {title}\n\n{_table(['case', *COLUMNS], rows)}")
    parts.append(f"## Capabilities\n\n{capabilities()}")
    return "\n".join(parts)


def capabilities() -> str:
    rows = [
        [f"`{name}`", *(_in_words(getattr(CAPABILITIES[log], name)) for log in COLUMNS)]
        for name in (field.name for field in msgspec.structs.fields(Capabilities))
    ]
    return _table(["capability", *COLUMNS], rows)


def _in_words(value: bool | int) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if value else "-"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def run(words: Sequence[str]) -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "contract_report",
            "--contract-report", str(report),
            *(f"tests/contract/{name}" for name in FILES), *words,
        ]  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=False)
        return json.loads(report.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(prog="contract_table", description="The broker contract.")
    parser.add_argument("--write", type=Path, default=PAGE)
    arguments, words = parser.parse_known_args()
    verdicts = run(words)
    wrong = [
        f"{log}: {in_words(case)}"
        for log in COLUMNS
        for part in PARTS.values()
        for case in cases(part)
        if verdicts.get(log, {}).get(case, FAILED) == FAILED
    ]
    if wrong:
        print("no page was written: these failed, or were not run:", *wrong, sep="\n  ")
        return 1
    arguments.write.write_text(page(verdicts))
    return 0


assert set(LOGS.values()) == set(COLUMNS)
assert {name for part in PARTS.values() for name in cases(part)} == {
    name for name in dir(BrokerContract) if name.startswith("test_")
}

if __name__ == "__main__":
    sys.exit(main())

"""What a look at each event costs at the door: who sends, how much, whether it came before, its data, its signature."""

from __future__ import annotations

import json
import sys
from math import inf
from pathlib import Path
from typing import Any

import lab
import quota_isolation
import table
from cost import memory

KEY = "the-key-of-the-bench"
NONE = "none of these"
PREFACE = """## Doors

HTTP → embedded log, single events of 0.6 kB of 64 connections, each with an id of its own: with a producer's key,
its rights and its quota, with `deduplicate`, and with a `schema`, each beside a service with none of these. Through an
intake, requests are signed as GitHub signs them, 0.6 kB each. Isolation of quotas: milliseconds from a post to its
answer at a steady rate, alone and beside a producer that is refused nine times out of ten.
"""
SECRET = "the-secret-of-the-hooks"
INTAKE = "an intake, GitHub's signature"
MAY = {"routes": ["everything"], "sources": ["/orders/*"], "types": ["com.example.order.*"]}
QUOTA = {"events": "1000000/s", "burst": 1_000_000}
SCHEMA = {
    "type": "object",
    "required": ["order", "amount"],
    "properties": {
        "order": {"type": "string", "pattern": "^A-[0-9]+$"},
        "amount": {"type": "number", "minimum": 0},
        "note": {"type": "string"},
    },
}


def producer(**settings: Any) -> list[dict[str, Any]]:
    return [{"name": "bench", "keys": [KEY], **settings}]


def settings_of(folder: Path) -> dict[str, dict[str, Any]]:
    """By what stands in the row: the settings of its service."""
    schema = folder / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    return {
        NONE: {},
        "a producer's key": {"producers": producer()},
        "a producer's key and its rights": {"producers": producer(may=MAY)},
        "a producer's key, its rights and its quota": {"producers": producer(may=MAY, quota=QUOTA)},
        "deduplicate": {"route": {"deduplicate": {"window": "10m"}}},
        "schema": {"route": {"schema": {"file": str(schema)}}},
        INTAKE: {
            "intakes": [
                {"name": "github", "preset": "github", "secret": SECRET, "route": "everything"}
            ]
        },
    }


def measure(
    folder: Path, rounds: int, events: int, seconds: float
) -> tuple[list[table.Row], list[str]]:
    started: list[Any] = []
    services: dict[str, lab.Service] = {}
    rows = {}
    with lab.stopping(started):
        for name, settings in settings_of(folder).items():
            at = folder / f"service-{len(services)}"
            log = {"kind": "embedded", "path": str(at / "log")}
            service = services[name] = lab.Service(at, log, **settings)
            service.start()
            started.append(service)
            rows[name] = table.Row(f"HTTP → embedded log, {name}", NONE, inf)
            _cost(name, service, events // 10)  # warm: imports, caches, topics
        for number in range(rounds):
            print(f"doors, round {number + 1} of {rounds}", file=sys.stderr)
            for name, service in services.items():
                rows[name].measured.append(_cost(name, service, events))
        for name, row in rows.items():
            row.floor = rows[NONE].measured
            row.memory = str(memory(services[name].pid))
    rows.pop(NONE)
    isolation, remarks = quota_isolation.measure(folder / "isolation", events, seconds)
    return [*rows.values(), isolation], [f"{rounds} rounds of {events:,} events each.", *remarks]


def _cost(name: str, service: lab.Service, events: int) -> float:
    option = f"--hook={SECRET}" if name == INTAKE else f"--key={KEY}"
    return lab.cpu_of_load(service.pid, service.port, "single", events, option)

"""HTTP → log with larger bodies, fewer and more connections, and TLS, each beside its floor under the same load."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import ingress
import lab
import logs
import table

from authority import Authority

PREFACE = """## Bodies, connections, TLS

HTTP → log, single events, each shape of the load beside a plain floor under the same load. Where nothing else is said:
0.6 kB, 64 connections, one request in flight on each, no TLS.
"""
LOGS = ("embedded", "kafka")
MOST = 120_000_000  # bytes of data in a round: large bodies come in fewer events


class Shape(NamedTuple):
    """``tls``: served with it. The others as ``load.py`` has them."""

    name: str
    body: int = 600
    connections: int = 64
    tls: bool = False

    def words(self) -> tuple[str, ...]:
        words = (f"--body={self.body}", f"--connections={self.connections}")
        return (*words, "--tls") if self.tls else words

    def events(self, most: int) -> int:
        return min(most, MOST // self.body)


SHAPES = (
    Shape("0.6 kB, 64 connections"),
    Shape("8 kB", body=8_000),
    Shape("60 kB", body=60_000),
    Shape("16 connections", connections=16),
    Shape("256 connections", connections=256),
    Shape("TLS", tls=True),
)


def measure(folder: Path, rounds: int, events: int) -> tuple[Sequence[table.Line], list[str]]:
    lab.many_files()
    remarks = [f"{rounds} rounds of {events:,} events, or of {MOST / 1e6:.0f} MB of data if fewer."]
    rows: list[ingress.Row] = []
    for kind in LOGS:
        with logs.standing(kind, remarks) as log:
            if log:
                rows += into(log, folder / kind, rounds, events)
    return rows, remarks


def into(log: logs.Log, folder: Path, rounds: int, events: int) -> list[ingress.Row]:
    """Two services and two floors, one of each with TLS."""
    folder.mkdir()
    cert, key = Authority(folder).server("localhost", "127.0.0.1")
    started: list[Any] = []
    rows = [ingress.Row(f"HTTP → {log.name}, {each.name}", log.floor_name, inf) for each in SHAPES]
    with lab.stopping(started):
        pairs = {}
        for tls in (False, True):
            of, own = (
                ("tls", {"events": {"tls": {"cert": cert, "key": key}}}) if tls else ("plain", {})
            )
            service = lab.Service(folder / of, log.broker(folder / f"{of}-log"), **own)
            service.start()
            started.append(service)
            floor = log.floor(*((f"--cert={cert}", f"--key={key}") if tls else ()))
            started.append(floor)
            pairs[tls] = service, floor
            for each in (service, floor):
                words = ("--tls",) if tls else ()
                lab.load(each.port, "single", max(1_000, events // 4), *words)  # warm
        for number in range(rounds):
            for shape, row in zip(SHAPES, rows, strict=True):
                print(f"{row.name}, round {number + 1} of {rounds}", file=sys.stderr)
                service, floor = pairs[shape.tls]
                most, words = shape.events(events), shape.words()
                found = lab.under_load(service.pid, service.port, "single", most, *words)
                beside = lab.cpu_of_load(floor.pid, floor.port, "single", most, *words)
                row.add(found, beside, service.pid)
    return rows

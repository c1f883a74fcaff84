"""What an event costs that is pulled: from the embedded log into the store, handed out, acknowledged."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path

import lab
import table
from cost import cpu_seconds, memory

from postgres_server import PostgresServer, fresh_database

BATCH = 500  # events of one transaction, of one answer and of one acknowledgement

PREFACE = f"""## Pulled events

Events of 0.6 kB from the embedded log into the pull queue, received and acknowledged over HTTP {BATCH} at a time. CPU is
that of the service's process, reading the log and answering the requests included; the floors put the same
rows, into the same table with its indexes, {BATCH} a durable transaction, in the same round, by the bare driver. CPU of
PostgreSQL's own processes is in neither.
"""


class Pulled:
    """One kind of store, on ``server`` or in a file. Every round has a subscription of its own, which begins at the
    earliest, and its floors a table of their own."""

    def __init__(self, name: str, folder: Path, total: int, server: PostgresServer | None) -> None:
        log = {"kind": "embedded", "path": str(folder / f"{name}-log")}
        self._folder, self._total, self._server = folder, total, server
        store = server and {"kind": "postgresql", "dsn": fresh_database(server.dsn)}
        self._service = lab.Service(folder / name, log, store=store)
        way = f"embedded log → pull queue ({name}) → acknowledged"
        self.rows = {
            "rows": table.Row(way, "bare inserts and deletes", 2.0),
            "queue": table.Row(way, "bare queue: inserts, locks, reads, deletes", inf),
        }
        self._service.start()
        lab.load(self._service.port, "single", total)
        self._service.stop()

    def round(self, number: int) -> None:
        cost = self._drain(f"bench-{number}")
        file = self._folder / f"floor-{number}.db"
        place = fresh_database(self._server.dsn) if self._server else str(file)
        words = (f"--at={place}", f"--events={self._total}", f"--batch={BATCH}")
        floors = lab.result_of(lab.start("pull_floor.py", *words))
        for kind, row in self.rows.items():
            row.measured.append(cost)
            row.floor.append(floors[kind])

    def _drain(self, name: str) -> float:
        """Microseconds an event, counted from one tenth of the way to the end."""
        source = {"broker": "target", "topics": [lab.TOPIC]}
        pulled = {"id": name, "source": source, "start": "earliest", "sink": {"pull": {}}}
        first = self._total // 10
        self._service.start((pulled,))
        try:
            self._pull(name, first)
            before = cpu_seconds(self._service.pid)
            self._pull(name, self._total - first)
            used = str(memory(self._service.pid))
            for row in self.rows.values():
                row.memory = used
            return 1e6 * (cpu_seconds(self._service.pid) - before) / (self._total - first)
        finally:
            self._service.stop()

    def _pull(self, name: str, events: int) -> None:
        words = (f"--port={self._service.admin}", f"--subscription={name}", f"--events={events}")
        lab.result_of(lab.start("pull_client.py", *words, f"--batch={BATCH}"))


def measure(folder: Path, rounds: int, events: int) -> tuple[list[table.Row], list[str]]:
    remarks = [f"{rounds} rounds of {events:,} events."]
    kinds, server = [Pulled("SQLite", folder, events, None)], PostgresServer()
    if started := lab.attempt(server, "PostgreSQL", remarks):
        kinds.append(Pulled("PostgreSQL", folder, events, server))
    with lab.stopping(started):
        for number in range(rounds):
            print(f"pulled, round {number + 1} of {rounds}", file=sys.stderr)
            for kind in kinds:
                kind.round(number)
    return [row for kind in kinds for row in kind.rows.values()], remarks

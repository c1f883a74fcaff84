"""The service of a demo: its configuration, its process, and the endpoints that it delivers to.

The three endpoints of one receiving webhook misbehave as real ones do:

==========  ====================================================================================
picky       takes everything but one type, which it answers with 415: a dead letter at once
recovering  answers its first requests with 503: tried again, then the endpoint is paused
busy        answers now and then with 429 and Retry-After: 1, and must be left alone that long
==========  ====================================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from app.cli.feed import SECRET
from app.cli.receiver import Arrival, Reply
from app.cli.rehearsal.ledger import Ledger
from app.errors import SetupError

INTAKE = "github"
NAMES = ("picky", "recovering", "busy")
REFUSED_TYPES = frozenset({"com.github.ping", "com.example.order.disputed"})
DOWN_FOR = 10  # requests: as many as it takes until the endpoint is paused
BUSY_EVERY = 150  # requests
START_WITHIN = 30.0  # seconds
STOP_WITHIN = 30.0

CONFIGURATION = """\
version: 1
installation: demo
server: {{events: {{port: 0}}, admin: {{port: 0}}}}       # free ports
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  log: {{kind: embedded, path: {folder}/log}}
routes:                                             # the first match wins
  - name: pull-requests
    filters: [{{prefix: {{type: com.github.pull_request}}}}]
    to: {{broker: log, topic: pull-requests}}
    key: {{mapper: partitionkey}}
  - name: everything
    to: {{broker: log, topic: events}}
    key: {{mapper: partitionkey}}
intakes:
  - name: {intake}
    preset: github
    secret: "{secret}"
    max_age: 0s                                     # five of the examples are another one again, byte for byte
subscriptions:
{subscriptions}
webhooks: {{allow_private: [127.0.0.0/8]}}
timeouts: {{not_ready: 0}}
log: {{level: warning}}
"""

SUBSCRIPTION = """\
  - id: {name}
    source: {{broker: log, topics: [pull-requests, events]}}
    start: earliest
    sink: {webhook}/{name}
    retry: {{schedule: [100ms, 200ms, 500ms, 1s, 2s, 5s, 10s]}}
"""


def configuration(folder: Path, webhook: str, endpoints: Sequence[str]) -> str:
    """The YAML text that the demo runs on."""
    subscriptions = "".join(SUBSCRIPTION.format(name=name, webhook=webhook) for name in endpoints)
    return CONFIGURATION.format(
        folder=folder, subscriptions=subscriptions.rstrip(), intake=INTAKE, secret=SECRET
    )


class Child(NamedTuple):
    """A running service: where it listens, and its process id."""

    events: str
    admin: str
    pid: int

    @property
    def console(self) -> str:
        """Where a browser finds it, once it is built."""
        return f"{self.admin}/console/"


@contextlib.asynccontextmanager
async def service(file: Path, log: Path, environ: Mapping[str, str]) -> AsyncIterator[Child]:
    """``skybridge serve --config file`` as a process of its own, ended in order by SIGTERM.

    Raises SetupError when it does not start, and when it does not end with code 0.
    """
    clean = {name: text for name, text in environ.items() if not name.startswith("SKYBRIDGE_")}
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app", "serve", "--config", os.fspath(file), "--json",
            stdout=asyncio.subprocess.PIPE, stderr=stderr, env=clean,
        )  # fmt: skip
    try:
        yield await _announced(process, log)
    except BaseException:
        _signal(process, signal.SIGKILL)
        await process.wait()
        raise
    _signal(process, signal.SIGTERM)
    await _ended(process, log)


async def _announced(process: asyncio.subprocess.Process, log: Path) -> Child:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_WITHIN)
    except TimeoutError:
        line = b""
    if not line:
        raise SetupError(f"the service did not start.\n{_end_of(log)}")
    said: dict[str, Any] = json.loads(line)
    return Child(said["events"], said["admin"], process.pid)


async def _ended(process: asyncio.subprocess.Process, log: Path) -> None:
    try:
        code = await asyncio.wait_for(process.wait(), STOP_WITHIN)
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        code = await process.wait()
    if code != 0:
        raise SetupError(f"the service ended with code {code}.\n{_end_of(log)}")


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


_TAKEN = Reply(204)
_UNSUPPORTED = Reply(415)
_DOWN = Reply(503)
_TOO_MANY = Reply(429, ((b"retry-after", b"1"),))


class Endpoints:
    """Answers each request and notes it in the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._requests: Counter[str] = Counter()

    def answer(self, arrival: Arrival) -> Reply:
        name = arrival.path.strip("/")
        if name not in NAMES or not arrival.events:
            return Reply(400)
        self._requests[name] += 1
        event = arrival.events[0].event
        reply = self._reply(name, self._requests[name], event.type)
        self._ledger.arrived(name, event.id, event.data, reply.status)
        return reply

    def _reply(self, name: str, number: int, type_: str) -> Reply:
        if name == "picky" and type_ in REFUSED_TYPES:
            return _UNSUPPORTED
        if name == "recovering" and number <= DOWN_FOR:
            return _DOWN
        if name == "busy" and number % BUSY_EVERY == 1:
            return _TOO_MANY
        return _TAKEN

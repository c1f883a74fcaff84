"""The service of a demo: its configuration, its process, and the endpoints that it delivers to.

The three endpoints are paths of one webhook, and they fail as real ones do:

==========  ====================================================================================
picky       accepts everything but one type, which it answers with 415: a dead letter at once
recovering  answers its first requests with 503: retried, then the endpoint is paused
busy        answers some requests with 429 and Retry-After: 1: no request for one second
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

from app.cli.demo.ledger import DemoLedger
from app.cli.feed import SECRET
from app.cli.receiver import Arrival, Reply
from app.errors import SetupError

INTAKE = "github"
NAMES = ("picky", "recovering", "busy")
REFUSED_TYPES = frozenset({"com.github.ping", "com.example.order.disputed"})
DOWN_FOR = 10  # requests: enough for the endpoint to be paused
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
    max_age: 0s                                     # five examples repeat another one byte for byte
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
    """Return the YAML configuration of the demo."""
    subscriptions = "".join(SUBSCRIPTION.format(name=name, webhook=webhook) for name in endpoints)
    return CONFIGURATION.format(
        folder=folder, subscriptions=subscriptions.rstrip(), intake=INTAKE, secret=SECRET
    )


class Child(NamedTuple):
    """A running service: the URLs of its listeners, and its process id. ``missing`` is why its console
    cannot be shown yet, or empty.
    """

    events: str
    admin: str
    pid: int
    missing: str = ""

    @property
    def console(self) -> str:
        """Return the URL of the console, and why it does not show itself yet."""
        url = f"{self.admin}/console/"
        return f"{url}  ({self.missing})" if self.missing else url


@contextlib.asynccontextmanager
async def service(file: Path, log: Path, environ: Mapping[str, str]) -> AsyncIterator[Child]:
    """Run ``skybridge serve --config file`` as a child process, and end it with SIGTERM.

    Raises:
        SetupError: If the service does not start, or ends with another code than 0.
    """
    clean = {name: text for name, text in environ.items() if not name.startswith("SKYBRIDGE_")}
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app", "serve", "--config", os.fspath(file), "--json",
            stdout=asyncio.subprocess.PIPE, stderr=stderr, env=clean,
        )  # fmt: skip
    try:
        yield await _read_addresses(process, log)
    except BaseException:
        _signal(process, signal.SIGKILL)
        await process.wait()
        raise
    _signal(process, signal.SIGTERM)
    await _wait_for_exit(process, log)


async def _read_addresses(process: asyncio.subprocess.Process, log: Path) -> Child:
    """Return the addresses that the service prints when it has started, or raise SetupError."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_WITHIN)
    except TimeoutError:
        line = b""
    if not line:
        raise SetupError(f"The service did not start.\n{_end_of(log)}")
    said: dict[str, Any] = json.loads(line)
    return Child(said["events"], said["admin"], process.pid, said["console_missing"] or "")


async def _wait_for_exit(process: asyncio.subprocess.Process, log: Path) -> None:
    """Wait until the service has ended, or raise SetupError if its exit code is not 0."""
    try:
        code = await asyncio.wait_for(process.wait(), STOP_WITHIN)
    except TimeoutError:
        _signal(process, signal.SIGKILL)
        code = await process.wait()
    if code != 0:
        raise SetupError(f"The service ended with code {code}.\n{_end_of(log)}")


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
    """The three endpoints. They answer each request and record it in the ledger."""

    def __init__(self, ledger: DemoLedger) -> None:
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

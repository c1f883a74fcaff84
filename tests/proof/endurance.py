"""Send at half load for an hour while something fails each minute, in pieces of ten minutes, and judge the history.

::

    PYTHONPATH=tests/support:tests python -m proof.endurance --log kafka --folder /tmp/endurance --minutes 9
    ... the same again         continues with the next piece
    ... --judge --write docs/proof.md      judges all pieces, and writes their row into the page

The first seconds of the first piece measure the full load. The faults come in an order of the seed, and each comes once before
one comes again: the service or its broker is killed, the service stands still, or the webhook refuses some events or all,
is silent, or closes the connection.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice

from proof.history import Fault, Terms
from proof.pieces import Pieces
from proof.pieces_command import parser_of, run_or_judge
from proof.single import ATTEMPT, PACE, STALLED, SUBSCRIPTION, TOPIC, SingleService, single_service
from waiting import until

FULL = 20.0  # seconds of full load, to know what half of it is
EVERY = 60.0  # seconds from fault to fault
LASTS = 8.0  # seconds of a fault that is not a kill
COMMIT, SETTLE = 5.0, 15.0  # seconds: ``proof.history.Terms``
MODES = {"refused": "refuse", "refused all": "refuse-all", "silent": "silent", "closed": "close"}


async def fail(service: SingleService, name: str) -> None:
    """Let one fault happen, from its begin to its end, and write it into the history."""
    start = time.monotonic()
    if name == "killed":
        await service.kill()
        return
    if name == "broker killed":
        assert service.broker is not None
        service.broker.kill()
        service.broker.begin()  # by the main thread, so that it ends with this process
        await asyncio.to_thread(service.broker.wait_until_answering)
    elif name == "paused":
        service.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LASTS)
        service.process.send_signal(signal.SIGCONT)
    else:
        service.target.modes[SUBSCRIPTION] = MODES[name]
        await asyncio.sleep(LASTS)
        del service.target.modes[SUBSCRIPTION]
    repeats = name not in MODES
    service.history.write(Fault(name, "service", start, time.monotonic(), repeats=repeats))


async def answered(service: SingleService) -> None:
    """Return when one more event is acknowledged."""
    seen, count = service.history, service.history.acknowledged
    await until(lambda: seen.acknowledged > count, "an answer", STALLED)


async def measure(service: SingleService) -> float:
    """Return half of the events a second that are acknowledged at full load."""
    before, begun = service.history.acknowledged, time.monotonic()
    await asyncio.sleep(FULL)
    return (service.history.acknowledged - before) / (time.monotonic() - begun) / 2


def deck(seed: int, names: Sequence[str]) -> Iterator[str]:
    """Return the faults of a run without end. Each of ``names`` comes once before one comes again."""
    dice = random.Random(seed)
    while True:
        yield from dice.sample(names, len(names))


async def fail_each_minute(service: SingleService, seconds: float) -> None:
    """Let a fault happen each minute, until the time is over. Continue after the faults of earlier pieces."""
    totals = service.history.totals
    names = ["killed", "paused", *MODES, *(["broker killed"] if service.broker else [])]
    faults = islice(deck(totals.seed, names), sum(totals.faults.values()), None)
    over = time.monotonic() + seconds
    while (left := over - time.monotonic()) > EVERY:
        await asyncio.sleep(EVERY / 2)
        name = next(faults)
        await fail(service, name)
        seen = service.history
        print(f"{left:.0f} s left: {name}, {seen.acknowledged:,} acknowledged", flush=True)
        await answered(service)
        await asyncio.sleep(EVERY / 2)


async def piece(pieces: Pieces, asked: argparse.Namespace) -> None:
    """Run the next piece."""
    begun = time.monotonic()
    totals = pieces.totals(asked.log, asked.seed)
    history = pieces.begin(
        totals, Terms({SUBSCRIPTION: TOPIC}, commit=COMMIT, settle=SETTLE, timeout=ATTEMPT)
    )
    async with single_service(pieces.folder, history) as service:
        service.send(asked.keys, asked.keys / totals.rate if totals.rate else PACE)
        if not totals.rate:
            totals.rate = await measure(service)
            for sender in service.senders:
                sender.pace = asked.keys / totals.rate
        await fail_each_minute(service, asked.minutes * 60)
        await service.finish()
    pieces.end(history, time.monotonic() - begun)
    print(f"{totals.acknowledged:,} acknowledged in {totals.pieces} pieces, {totals.faults}")


def main(words: list[str]) -> int:
    parser = parser_of("endurance", __doc__.partition("\n")[0], keys=100)
    return run_or_judge("endurance", parser.parse_args(words), piece)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

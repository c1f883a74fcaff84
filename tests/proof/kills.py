"""Send a million events through one service that is killed again and again, in pieces, and judge the history.

::

    PYTHONPATH=tests/support:tests python -m proof.kills --log embedded --folder /tmp/kills --minutes 9
    ... the same again         continues, until all events are sent; --log: kafka, rabbitmq or pulsar
    ... --judge --write docs/proof.md      judges all pieces, and writes their row into the page

The kills are spread over the events by the seed. The embedded log keeps its folder from piece to piece; a broker is
new in each piece. A piece ends when every acknowledged event is delivered.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from itertools import islice

from proof.history import Terms
from proof.load import Sizes
from proof.pieces import PieceHistory, Pieces
from proof.pieces_command import parser_of, run_or_judge
from proof.single import ATTEMPT, PACE, STALLED, SUBSCRIPTION, TOPIC, SingleService, single_service
from waiting import until

COMMIT = (
    1.0  # seconds of deliveries that a kill may repeat, on a busy machine (``docs/guarantees.md``)
)
SETTLE = 1.0
SIZES = Sizes(batches=0.9, most=200)
BATCH = {"max_events": 100}
DELIVERED = 1_000  # events that a service delivers before it is killed, at most


async def kill_again_and_again(service: SingleService, asked: argparse.Namespace) -> None:
    """Kill the service each time that a share of the events is acknowledged, until all are or the time is over.

    A service that was started is not killed again before it has delivered events.
    """
    history, totals, dice = service.history, service.history.totals, random.Random(asked.seed)
    share = asked.events / (asked.kills + 1)
    plan = [share * (number + dice.uniform(0.5, 1.5)) for number in range(asked.kills)]
    over = time.monotonic() + asked.minutes * 60
    for wanted in [*islice(plan, totals.faults.get("killed", 0), None), asked.events]:
        enough = len(history.delivered) + dice.randint(1, DELIVERED)
        await until(
            lambda wanted=wanted, enough=enough: (
                (totals.acknowledged >= wanted and len(history.delivered) >= enough)
                or time.monotonic() >= over
            ),
            "acknowledged and delivered events", STALLED, 0.002, lambda: len(history.delivered),
        )  # fmt: skip
        if time.monotonic() >= over or totals.acknowledged >= asked.events:
            return
        await service.kill()
        say(history)


def say(history: PieceHistory) -> None:
    totals = history.totals
    kills = totals.faults.get("killed", 0)
    print(
        f"{kills} kills, {totals.acknowledged:,} acknowledged, {history.waiting:,} waiting",
        flush=True,
    )


async def piece(pieces: Pieces, asked: argparse.Namespace) -> None:
    """Run the next piece."""
    begun = time.monotonic()
    totals = pieces.totals(asked.log, asked.seed)
    terms = Terms({SUBSCRIPTION: TOPIC}, commit=asked.commit, settle=SETTLE, timeout=ATTEMPT)
    history = pieces.begin(totals, terms)
    async with single_service(pieces.folder, history, batch=BATCH) as service:
        service.send(asked.keys, PACE, SIZES)
        await kill_again_and_again(service, asked)
        say(history)
        await service.finish()
    pieces.end(history, time.monotonic() - begun)
    say(history)


def main(words: list[str]) -> int:
    parser = parser_of("kills", __doc__.partition("\n")[0], keys=200)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--commit", type=float, default=COMMIT, help="seconds a kill may repeat")
    return run_or_judge("kills", parser.parse_args(words), piece)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

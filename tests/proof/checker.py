"""Judge the history of a run, from its lines alone, and show the smallest witness of each fault.

::

    PYTHONPATH=tests python -m proof.checker history.jsonl more.jsonl

The exit code is 0 if the history is clean, 1 if it is convicted of a fault, and 2 if it cannot be judged, for
example because no subscription shall receive an acknowledged event. The checker shares no code with ``app``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from proof.checker_order import Witness
from proof.checker_repeats import allowed_repeats
from proof.checker_tables import Tables
from proof.checker_verdicts import VERDICTS
from proof.history import BadHistory, Line, read_history, read_texts

WITNESSES = 3  # of each verdict are shown; all are counted
SHOWN = 600  # characters of a line in the report
CLEAN, CONVICTED, NOT_JUDGED = 0, 1, 2

_COUNTS = {
    "requests": "SELECT count(DISTINCT line) FROM sent",
    "acknowledged": "SELECT count(*) FROM event WHERE acked_at IS NOT NULL",
    "expected": "SELECT count(*) FROM event JOIN subscription USING (topic) WHERE acked_at IS NOT NULL",
    "unknown": "SELECT count(*) FROM event WHERE acked_at IS NULL AND copies > 0",
    "refused": "SELECT count(*) FROM event WHERE copies = 0",
    "attempts": "SELECT count(DISTINCT line) FROM arrived",
    "delivered": "SELECT count(*) FROM result WHERE finished IS NOT NULL",
    "kept": "SELECT count(*) FROM kept",
    "faults": "SELECT count(*) FROM fault",
}


@dataclass(frozen=True)
class Judgement:
    """The result of the checker.

    Attributes:
        counts: The size of the history: requests, events by outcome, attempts, events that each
            subscription shall receive and has received.
        repeats: The repeated deliveries that the guarantees allow, by cause.
        faults: The count of each verdict that convicts.
        witnesses: The numbers of the lines that prove a verdict, for the first few of each.
    """

    counts: dict[str, int]
    repeats: dict[str, int]
    faults: dict[str, int] = field(default_factory=dict)
    witnesses: dict[str, list[Witness]] = field(default_factory=dict)

    @property
    def code(self) -> int:
        if self.faults:
            return CONVICTED
        return CLEAN if self.counts["expected"] else NOT_JUDGED


def judge(paths: Iterable[Path]) -> Judgement:
    """Judge the history in these files.

    Raises:
        BadHistory: A line is not of the format, or no line has the terms of the run.
    """
    return judge_lines(read_history(paths))


def judge_lines(lines: Iterable[Line]) -> Judgement:
    """Judge the lines of a history, as ``judge`` does."""
    with closing(Tables(lines)) as tables:
        counts = {name: tables.count(query) for name, query in _COUNTS.items()}
        judgement = Judgement(counts, allowed_repeats(tables))
        for name, verdict in VERDICTS.items():
            witnesses = iter(verdict(tables))
            shown = list(islice(witnesses, WITNESSES))
            if shown:
                judgement.witnesses[name] = shown
                judgement.faults[name] = len(shown) + sum(1 for _ in witnesses)
    return judgement


def texts_of(paths: Iterable[Path], numbers: Iterable[int]) -> dict[int, str]:
    """Return the text of each of these lines, by its number."""
    wanted = set(numbers)
    return {number: text for number, text in read_texts(paths) if number in wanted}


def _short(text: str) -> str:
    """Return a line of the history for a terminal. A batch may have hundreds of events."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"


def report(judgement: Judgement, paths: Sequence[Path]) -> str:
    """Return the judgement in words, with the lines of the witnesses."""
    lines = [_in_words(judgement.counts)]
    if judgement.repeats:
        lines.append(f"repeated as the guarantees allow, by cause: {_in_words(judgement.repeats)}")
    shown = [number for each in judgement.witnesses.values() for one in each for number in one]
    texts = texts_of(paths, shown)
    for name, count in judgement.faults.items():
        lines.append(f"CONVICTED: {name}: {count}")
        for witness in judgement.witnesses[name]:
            lines += [
                f"  {number}: {_short(texts[number])}" for number in dict.fromkeys(witness)
            ] + [""]
    ends = {
        CLEAN: "clean",
        CONVICTED: "convicted",
        NOT_JUDGED: "not judged: no event was acknowledged that a subscription shall receive",
    }
    return "\n".join([*lines, ends[judgement.code]])


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="files of one history")
    parser.add_argument(
        "--json", action="store_true", help="print the counts as a last line of JSON"
    )
    asked = parser.parse_args(arguments)
    files = asked.files
    try:
        judgement = judge(files)
    except (BadHistory, OSError) as error:
        print(error, file=sys.stderr)
        return NOT_JUDGED
    print(report(judgement, files))
    if asked.json:
        counted = ("counts", "repeats", "faults")
        print(json.dumps({name: getattr(judgement, name) for name in counted}))
    return judgement.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

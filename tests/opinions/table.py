"""``make opinions``: the page that sets Skybridge beside the official SDKs, from their own verdicts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import cesql_opinion
import cesql_page
from cesql_opinion import Comparison
from kafka_install import Missing
from opinion_install import SDKS
from opinion_list import Disagreement, Listed, disagreeing, listed
from opinion_process import opinions_of_sdk
from opinion_skybridge import NAME, Skybridge
from opinion_verdicts import Opinion, opinions_of

Verdicts = Mapping[str, Sequence[Opinion]]

NAMES = {
    NAME: "Skybridge", "python": "Python", "go": "Go", "java": "Java", "javascript": "JavaScript",
}  # fmt: skip
ROWS: Sequence[tuple[str, Callable[[Opinion], bool]]] = (
    ("HTTP: valid, read right", lambda each: each.case.startswith("http/") and each.valid),
    ("HTTP: invalid, refused", lambda each: each.case.startswith("http/") and not each.valid),
    ("Kafka: valid, read right", lambda each: each.case.startswith("kafka/") and each.valid),
    ("Kafka: invalid, refused", lambda each: each.case.startswith("kafka/") and not each.valid),
    ("JSON: valid, read right", lambda each: each.case.startswith("json/") and each.valid),
    ("JSON: invalid, refused", lambda each: each.case.startswith("json/") and not each.valid),
    ("reads what Skybridge writes, HTTP", lambda each: each.case.startswith("reads/http")),
    ("reads what Skybridge writes, Kafka", lambda each: each.case.startswith("reads/kafka")),
    ("writes what was meant, HTTP", lambda each: each.case.startswith("writes/http")),
    ("writes what was meant, Kafka", lambda each: each.case.startswith("writes/kafka")),
)

INTRODUCTION = """# Second opinions

<!-- Written by `make opinions` from tests/opinions/disagreements.json and the SDKs' own answers. -->

The official SDKs of four languages get the same messages as Skybridge: the
[corpus](../tests/corpus/README.md) for HTTP, Kafka and the JSON format, and a list of
[nasty events](../tests/opinions/events.json) that one side writes and the other reads: over HTTP and as
Kafka records, in all three content modes, in CloudEvents 1.0 and 0.3. Drivers and tests are in
`tests/opinions`. The SDKs are the published releases:
{releases}.

The questions cover what every SDK claims: versions 1.0 and 0.3, the JSON format, default settings. The counts
of an SDK leave out features that it lacks (batches, in Python and Java). Where validation is a separate
call (Go, JavaScript), the test makes it. The corpus was written for Skybridge, so Skybridge reads
all of it. The numbers show where the SDKs differ; each difference is listed below.

One result changed Skybridge: it writes `charset=utf-8` in lower case, because the JavaScript SDK
refuses the `charset=UTF-8` of the specification's own examples.

## On the same messages

"""
LISTED = """
This table does not count attributes that an SDK adds to events:

{inventions}

## Where they disagree

Every disagreement belongs to a class, and each class names the clause that decides it. *Open*: the clause
leaves the decision to the reader, and the row gives Skybridge's choice. The numbers are cases. A test fails when
an SDK disagrees in a case that is not listed, or agrees in a case that is.

| about | decided by | right | who does what |
|---|---|---|---|
"""


def page(verdicts: Verdicts, known: Listed, sql: Sequence[Comparison]) -> str:
    releases = ", ".join(f"{NAMES[sdk.name]} ({sdk.release})" for sdk in SDKS.values())
    inventions = "\n".join(
        f"- {NAMES[each.sdk]}, `{each.attribute}`: {each.does} ({each.clause}) {each.right}"
        for each in known.inventions
    )
    classes = "\n".join(_row_of(each, verdicts) for each in known.classes)
    return (
        INTRODUCTION.format(releases=releases)
        + _table(verdicts, known)
        + LISTED.format(inventions=inventions)
        + classes
        + "\n"
        + cesql_page.section(sql, cesql_opinion.listed())
    )


def _table(verdicts: Verdicts, known: Listed) -> str:
    lines = [
        f"| | {' | '.join(NAMES[name] for name in verdicts)} |",
        "|---" * (len(verdicts) + 1) + "|",
    ]
    for title, belongs in ROWS:
        cells = (_score(each, belongs, known) for each in verdicts.values())
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _score(opinions: Sequence[Opinion], belongs: Callable[[Opinion], bool], known: Listed) -> str:
    """Right of asked. What changes from run to run is not right."""
    given = [each for each in opinions if belongs(each) and each.verdict != "unable"]
    right = sum(not each.verdict and not known.is_unsteady(each) for each in given)
    return f"{right} of {len(given)}" if given else "-"


def _row_of(each: Disagreement, verdicts: Verdicts) -> str:
    deeds = []
    for sdk, stance in each.sdks.items():
        cases = sum(stance.covers(opinion) for opinion in disagreeing(verdicts[sdk]))
        deeds.append(f"{NAMES[sdk]} ({cases}): {stance.does}")
    return (
        f"| **{each.about}.** {each.cause} | {each.clause} | {each.right} | {'<br>'.join(deeds)} |"
    )


def _verdicts(known: Listed) -> Verdicts:
    ours: dict[str, Sequence[Opinion]] = {NAME: opinions_of(Skybridge(), frozenset())}
    return ours | {
        name: opinions_of_sdk(sdk, known.invented_by(name)) for name, sdk in SDKS.items()
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", type=Path, help="the file to write; standard output without")
    chosen = options.parse_args()
    try:
        text = page(_verdicts(known := listed()), known, cesql_page.on_the_table())
    except Missing as why:
        print(f"Not every SDK is here: {why}", file=sys.stderr)
        return 1
    if chosen.write:
        chosen.write.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

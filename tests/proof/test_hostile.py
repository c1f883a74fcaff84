"""The hostile requests of a million: a seed gives the same streams, and what comes back is counted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from proof import hostile_doors as doors
from proof.hostile import main
from proof.hostile_demands import (
    Fault,
    allowed,
    answers_of,
    demand_counts,
    demand_stored,
    published_of,
)
from proof.hostile_totals import Total, Totals


def test_a_seed_gives_one_stream_of_each_door() -> None:
    seeds = {
        "events": doors.event_seeds(),
        "intakes": doors.intake_seeds(),
        "admin": doors.admin_seeds(lambda path: not doors.is_pull(path)),
        "pull": doors.admin_seeds(doors.is_pull),
    }
    for each in seeds.values():
        streams = [doors.http_stream(random.Random(seed), each).data for seed in (1, 1, 2)]
        assert streams[0] == streams[1] != streams[2]
    frames = doors.kafka_seeds()
    streams = [doors.kafka_stream(random.Random(seed), frames).data for seed in (1, 1, 2)]
    assert streams[0] == streams[1] != streams[2]


def test_a_stream_keeps_the_frames_of_its_requests() -> None:
    dice = random.Random(1)
    for seed in doors.event_seeds():
        method, target, headers, body = doors.changed(dice, seed)
        assert "\r" not in f"{method}{target}"
        assert all(b"\n" not in value for _, value in headers)
        assert isinstance(body, bytes)


def test_answers_are_counted_by_status_and_frames_by_their_size() -> None:
    found = b"HTTP/1.1 401 Unauthorized\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n"
    assert answers_of("events", found) == {"401": 1, "202": 1}
    assert answers_of("kafka", b"\0\0\0\2ab\0\0\0\1c") == {"frame": 2}
    with pytest.raises(Fault, match="500"):
        allowed("events", answers_of("events", b"HTTP/1.1 500 Internal Server Error\r\n"))
    with pytest.raises(Fault, match="stranger"):
        allowed("intakes", answers_of("intakes", b"HTTP/1.1 202 Accepted\r\n"))


METRICS = """
# TYPE skybridge_events_published_total counter
skybridge_events_published_total{broker="log",route="all"} 54.0
skybridge_events_published_total{route="honest",broker="log"} 50.0
skybridge_events_published_created{broker="log",route="all"} 1.7e9
"""


def test_topics_have_the_events_that_were_accepted() -> None:
    published = published_of(METRICS)
    assert published == {"all": 54, "honest": 50}
    topics = {"kept": 50, "events": 54, "of the Kafka listener": 7}
    demand_counts(topics, published, honest=50, accepted=53)
    with pytest.raises(Fault, match="honest"):
        demand_counts(topics, published, honest=51, accepted=53)
    with pytest.raises(Fault, match="54 were published"):
        demand_counts({**topics, "events": 55}, published, honest=50, accepted=53)
    with pytest.raises(Fault, match="20 accepted requests"):
        demand_counts(topics, published, honest=50, accepted=20)


class Publishing:
    """A service that still publishes an event of a stream that was cut."""

    def __init__(self, log: Path, topics: list[int], metrics: list[int]) -> None:
        self.log, self._topics, self._metrics = log, topics, metrics
        log.write_text("")

    def ask(self, method: str, path: str, headers: object) -> tuple[int, str]:
        if path == "/metrics":
            return 200, METRICS.replace("54.0", str(self._next(self._metrics)))
        latest = {"kept": 50, "events": self._next(self._topics)}
        found = [{"name": name, "partitions": [{"latest": n}]} for name, n in latest.items()]
        return 200, json.dumps(found)

    @staticmethod
    def _next(values: list[int]) -> int:
        return values.pop(0) if len(values) > 1 else values[0]


def test_a_stream_that_was_cut_may_still_publish(tmp_path: Path) -> None:
    """Topics and counters are read one after the other."""
    service: Any = Publishing(tmp_path / "log", [54, 55, 55], [55, 56, 55])
    demand_stored(service, honest=50, accepted=53, within=5)
    service = Publishing(tmp_path / "log", [55], [54])
    with pytest.raises(Fault, match="54 were published"):
        demand_stored(service, honest=50, accepted=53, within=0.1)


def test_the_next_piece_continues_the_totals(tmp_path: Path) -> None:
    totals = Totals(tmp_path)
    totals.pieces, totals.doors["events"] = 1, Total(2, 1, {"401": 3})
    totals.save()
    again = Totals(tmp_path)
    assert (again.pieces, again.requests) == (1, 4)


@pytest.mark.nightly
@pytest.mark.timeout(0)  # no stream may hang, and the piece ends after its minutes
def test_twenty_thousand_hostile_requests_harm_nobody(tmp_path: Path) -> None:
    """No 5xx, no hang, no error in the log, bounded memory, an honest sender that is served (reliability S1)."""
    assert main(["--folder", str(tmp_path), "--requests", "20000", "--minutes", "90"]) == 0
    assert Totals(tmp_path).requests >= 20_000

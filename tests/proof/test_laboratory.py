"""The parts of the laboratory that start no server: tables of seeds, hosts and their end, relay, target, page."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kafka_install import Missing
from pages import CHECKOUT
from proof import hosts, network, page
from proof.checker import judge
from proof.clock import ShiftedClock
from proof.endurance import deck
from proof.faults import FAULTS, WAYS, Step, isolates, named
from proof.history import Delivery, HistoryWriter, Request, Terms, read_history
from proof.http_by_hand import (
    Message,
    Sent,
    binary_request,
    read_message,
    received,
)
from proof.laboratory import CLUSTERS, hosts_of
from proof.load import Gateway, Sender
from proof.progress import Progress
from proof.relay import Relay
from proof.result import Result
from proof.scenario import Scenario
from proof.scenario_signs import LEAST, Pauses, note_signs, outside
from proof.scenarios import SCENARIOS, scenario
from proof.target import Attempts, Target
from proof.unsafe import GIVEN_UP
from skipping import skip_or_fail
from waiting import until, wait_until

SEEDS = range(1, 4)


def placed(step: Step, every: list[str]) -> Step:
    """Return a step with a host for each role."""
    roles = {"leader": every[0], "coordinator": every[0], "primary": "store", "copy": "standby"}
    host, value = (" ".join(roles.get(word, word) for word in words.split()) for words in step[::4])
    return step._replace(host=host, value=value)


@pytest.mark.parametrize("each", SCENARIOS, ids=lambda each: each.name)
def test_a_seed_gives_one_table_of_known_faults_at_known_hosts(each: Scenario) -> None:
    every = hosts_of(each.cluster)
    tables = [each.table(seed) for seed in SEEDS]
    assert tables == [each.table(seed) for seed in SEEDS]
    assert len({str(table) for table in tables}) == len(tables), "each seed has its own"
    for step in (step for table in tables for step in table):
        assert step.fault in FAULTS
        assert 0 <= step.begin < step.end
        at = placed(step, every)
        found = named(at.host, every)
        if step.fault in WAYS:
            assert set(named(at.value, every, found)) - set(found), "others to be cut from"


@pytest.mark.parametrize("each", SCENARIOS, ids=lambda each: each.name)
def test_a_host_has_one_fault_of_its_process_at_a_time(each: Scenario) -> None:
    """An end would otherwise start a process that another step has just killed."""
    for seed in SEEDS:
        until: dict[str, float] = {}
        for step in each.table(seed):
            if step.fault in {"paused", "killed", "restarted"}:
                assert step.begin >= until.get(step.host, 0)
                until[step.host] = step.end


def test_terms_of_a_scenario_are_those_of_a_history() -> None:
    for each in SCENARIOS:
        Terms({"steady": "events"}, **each.terms)
    assert scenario("kafka-spool").terms == {"spool": True, "per_gateway": True}


def test_one_way_disturbs_a_host_of_each_role() -> None:
    for each in SCENARIOS:
        if each.name.endswith("-one-way"):
            for seed in SEEDS:
                hit = {step.host.rstrip("123") for step in each.table(seed)}
                assert len(hit) == 3
                assert {"worker", "gateway"} < hit


@pytest.mark.parametrize("each", [each for each in SCENARIOS if "-random" in each.name])
def test_random_faults_are_of_all_kinds(each: Scenario) -> None:
    tables = [step for seed in range(1, 7) for step in each.table(seed)]
    unused = {"replaced"} if each.cluster == "pulsar" else {"replaced", "disk full"}
    assert {step.fault for step in tables} == set(FAULTS) - unused
    others = {"load", "name"}
    assert {step.host for step in tables} == set(hosts_of(each.cluster)) - others


def test_a_worker_that_fails_in_a_pause_has_ten_seconds_of_it_to_misbehave() -> None:
    for seed in SEEDS:
        table = scenario("kafka-pause").table(seed)
        pauses = [step for step in table if step.fault == "subscription paused"]
        faults = [step for step in table if step.fault != "subscription paused"]
        assert len(pauses) == len(faults) == 3
        assert {step.fault for step in faults} == {"killed", "paused", "cut from"}
        for pause, fault in zip(pauses, faults, strict=True):
            assert fault.begin < pause.begin < fault.end <= pause.end - 10


def test_each_fault_of_endurance_comes_once_before_one_comes_again() -> None:
    names = ["a", "b", "c"]
    drawn = list(islice(deck(1, names), 9))
    assert [sorted(drawn[at : at + 3]) for at in (0, 3, 6)] == [names] * 3
    assert drawn == list(islice(deck(1, names), 9))


def test_the_signs_of_an_attack_are_known() -> None:
    for each in SCENARIOS:
        assert each.signs
        assert set(each.signs) <= set(LEAST)


def test_what_a_control_gives_up_is_known_and_must_be_convicted() -> None:
    for each in SCENARIOS:
        if each.gives_up:
            assert each.gives_up in GIVEN_UP
            assert each.convicts


def test_names_of_hosts_are_patterns() -> None:
    every = ["kafka1", "kafka2", "worker1"]
    assert named("kafka*", every) == ["kafka1", "kafka2"]
    assert named("worker1 kafka1", every) == ["worker1", "kafka1"]
    assert named("rest", every, ["kafka1"]) == ["kafka2", "worker1"]
    with pytest.raises(ValueError, match="no host is named kafka9"):
        named("kafka9", every)


HOLDS = """
import sys, time
from proof.network import Network
network = Network(["one", "two"]).__enter__()
network["one"].spawn(["sleep", "600"], log=__import__("pathlib").Path(sys.argv[1]), preexec_fn=None)
network["two"].drop("one")
network["two"].disk(1)
print(network.number, *network["one"].pids(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def abandoned(tmp_path: Path) -> tuple[int, int]:
    """The number of a network whose run was killed, and the id of a process that it left on a host."""
    try:
        hosts.check_machine()
    except Missing as missing:
        skip_or_fail(missing)
    search = os.pathsep.join([str(CHECKOUT / "tests"), str(CHECKOUT / "tests/support")])
    run = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path / "log")],
        env={**os.environ, "PYTHONPATH": search}, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert run.stdout is not None
    with run.stdout:
        number, pid = map(int, run.stdout.readline().split())
    run.send_signal(signal.SIGKILL)
    run.wait()
    return number, pid


def test_the_next_run_removes_what_a_killed_run_has_left(abandoned: tuple[int, int]) -> None:
    number, pid = abandoned
    assert f"sky{number}-one" in hosts.run("ip", "netns", "list")
    network.remove_leftovers()
    assert f"sky{number}-" not in hosts.run("ip", "netns", "list")
    assert f"sky{number}:" not in hosts.run("ip", "link", "show")
    assert f"disks-{number}" not in Path("/proc/mounts").read_text()
    wait_until(lambda: not Path(f"/proc/{pid}/exe").exists(), "the end of the process")


class Ears:
    """Two hosts, of which ``two`` receives datagrams of ``one``."""

    RECEIVE = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('0.0.0.0', 9)); print(1, flush=True); s.recv(1)"
    SEND = (
        "import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(b'?', (sys.argv[1], 9))"
    )

    def __init__(self, both: network.Network) -> None:
        self._one, self._two = both["one"], both["two"]

    def hears(self, within: float) -> bool:
        """Return True if a datagram arrives. One that is lost shows nothing: on a busy machine the kernel drops packets of
        an interface that was made a moment ago."""
        words = self._two.command([sys.executable, "-S", "-c", self.RECEIVE])
        over = time.monotonic() + within
        with subprocess.Popen(words, stdout=subprocess.PIPE) as ear:
            assert ear.stdout is not None
            ear.stdout.readline()
            try:
                while ear.poll() is None and time.monotonic() < over:
                    self._one.run(sys.executable, "-S", "-c", self.SEND, "two")
                    with suppress(subprocess.TimeoutExpired):
                        ear.wait(0.1)
                return ear.poll() == 0
            finally:
                ear.kill()


def test_a_cut_of_one_direction_drops_packets_and_ends_with_the_last_that_asked_for_it() -> None:
    try:
        hosts.check_machine()
    except Missing as missing:
        skip_or_fail(missing)
    with network.Network(["one", "two"]) as both:
        ears = Ears(both)
        both["one"].drop("two")  # the other direction
        assert ears.hears(60)
        both["two"].drop("one")
        both["two"].drop("one")
        both["two"].hear("one")
        assert not ears.hears(0.1)
        both["two"].hear("one")
        assert ears.hears(60)


def test_faults_of_one_host_end_one_by_one() -> None:
    """Losses of several senders, a cut and a limit are independent of each other, and ``mend`` ends all of them."""
    try:
        hosts.check_machine()
    except Missing as missing:
        skip_or_fail(missing)
    with network.Network(["target", "worker1", "worker2"]) as three:
        target = three["target"]

        def rules() -> tuple[list[int], bool, bool]:
            """Return the lost thousandths, and whether a sender is cut and the rate limited."""
            losses = target.run("nft", "list", "chain", "inet", "proof", "loss")
            cut = target.run("nft", "list", "set", "inet", "proof", "cut")
            shares = sorted(map(int, re.findall(r"mod 1000 < (\d+)", losses)))
            shape = hosts.run("tc", "-n", target.namespace, "qdisc", "show", "dev", "eth0")
            return shares, "elements" in cut, "tbf" in shape

        target.limit(0)  # the end of a limit that was not begun
        target.lose(50, "worker1")
        target.lose(70, "worker2")
        target.drop("worker1")
        target.limit(512)
        assert rules() == ([50, 70], True, True)
        target.lose(90, "worker1")
        assert rules() == ([70, 90], True, True)
        target.lose(0, "worker2")
        target.hear("worker1")
        assert rules() == ([90], False, True)
        target.drop("worker2")
        target.mend()
        assert rules() == ([], False, False)


EVENT = Sent(
    {"id": "k-1", "source": "/a", "type": "t", "subject": 'Größe "1%"', "partitionkey": "k"},
    '{"n":  1, "text": "\\u00e9\U0001d11e"}',
)


async def test_the_target_writes_each_attempt_with_its_worker_and_answers_by_mode(
    tmp_path: Path,
) -> None:
    history = HistoryWriter(tmp_path / "target.jsonl")
    target = Target(history, {"127.0.0.1": "worker1"})
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Attempts(target), "127.0.0.1", 0)
    relay = Relay(server.sockets[0].getsockname()[1])
    relay.delay = 0.01
    ears = await relay.listen(0, "127.0.0.1")
    port = ears.sockets[0].getsockname()[1]

    async def post() -> Message | None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(binary_request("h", EVENT).replace(b"POST /events", b"POST /moody"))
        try:
            return await read_message(reader)
        except asyncio.IncompleteReadError:
            return None
        finally:
            writer.close()

    answers = []
    for mode in ("answer", "refuse-all", "close"):
        target.modes["moody"] = mode
        answer = await post()
        answers.append(answer and answer.first.split()[1])
    assert answers == ["204", "503", None]
    seen = [line.record for line in read_history([tmp_path / "target.jsonl"])]
    assert [each.status for each in seen if isinstance(each, Delivery)] == [204, 503, None]
    assert {(each.worker, each.subscription) for each in seen if isinstance(each, Delivery)} == {
        ("worker1", "moody")
    }
    await until(lambda: not relay.connections, "the end of all connections")
    server.close()
    ears.close()
    history.close()


READS = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""


def test_a_shifted_clock_steps_while_the_program_runs_and_the_monotonic_one_goes_on(
    tmp_path: Path,
) -> None:
    try:
        clock = ShiftedClock(tmp_path / "one")
    except Missing as missing:
        skip_or_fail(missing)
    with subprocess.Popen(
        [sys.executable, "-S", "-c", READS], env={**os.environ, **clock.environ()},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdin is not None
        assert program.stdout is not None
        seen = []
        for seconds in (0, 3600, -3600):
            clock.shift(seconds)
            program.stdin.write("?\n")
            program.stdin.flush()
            wall, monotonic = map(float, program.stdout.readline().split())
            seen.append(wall - monotonic)
        program.stdin.close()
    assert [round((each - seen[0]) / 60) for each in seen] == [0, 60, -60]


def test_progress_is_read_from_growing_files_and_the_checker_agrees(tmp_path: Path) -> None:
    load, target = tmp_path / "load", tmp_path / "target"
    progress = Progress(load, target, ["steady"])
    assert progress.missing() == 0
    sent, got = HistoryWriter(load), HistoryWriter(target)
    sent.write(Terms({"steady": "events"}))
    sent.write(Request("gateway1", 1, 2, 202, (EVENT.seen(),)))
    sent.flush()
    assert progress.missing() == 1
    got.write(Delivery("steady", "worker1", 3, 4, 503, (EVENT.seen(),)))
    got.flush()
    assert progress.missing() == 1
    got.write(Delivery("steady", "worker1", 5, 6, 204, (EVENT.seen(),)))
    got.flush()
    sent.close()
    got.close()
    assert (progress.missing(), progress.attempts) == (0, 2)
    assert (progress.span, progress.failed, progress.moved) == ((1, 2), 1, 0)
    assert judge([load, target]).faults == {}


@pytest.mark.parametrize("kind", sorted(CLUSTERS))
def test_a_worker_that_lost_all_brokers_is_isolated(kind: str) -> None:
    """The checker judges the lease of isolated workers alone."""
    cluster: Any = CLUSTERS[kind]
    brokers, every = cluster.brokers, hosts_of(kind)
    pattern = f"{brokers[0].rstrip('123')}*"
    for step, found in (
        (Step("worker1", "cut from", 1, 2, pattern), True),
        (Step("worker1", "deaf to", 1, 2, "rest"), True),
        (Step("worker1", "paused", 1, 2), True),
        (Step("worker1", "cut from", 1, 2, brokers[0]), False),
        (Step("worker1", "killed", 1, 2), False),
        (Step(f"worker1 {brokers[0]}", "cut from", 1, 2, "rest"), False),
    ):
        assert isolates(step, step.host.split(), every, brokers) is found


class Outcomes:
    """Results of the first scenario and of the control."""

    COUNTS = {"acknowledged": 1200, "unknown": 3, "attempts": 2500}  # noqa: RUF012

    @classmethod
    def clean(cls, seed: int) -> Result:
        figures: Any = {"gap": 11.6, "unanswered": 7, "calm": 31.2}
        return Result(SCENARIOS[0], seed, 95.4, {}, cls.COUNTS, {"fault": 4}, **figures)

    @classmethod
    def control(cls, verdicts: dict[str, int]) -> Result:
        return Result(scenario("kafka-leader-relaxed"), 1, 80, verdicts, cls.COUNTS)


def test_a_control_must_be_convicted_and_a_scenario_must_not() -> None:
    assert Outcomes.control({"lost": 3}).as_expected
    assert not Outcomes.control({}).as_expected
    assert not Outcomes.control({"repeated": 3}).as_expected
    assert Outcomes.clean(1).as_expected
    assert not Result(SCENARIOS[0], 1, verdicts={"lost": 1}, counts=Outcomes.COUNTS).as_expected
    assert not Result(SCENARIOS[0], 1).as_expected, "nothing was acknowledged"


def test_a_result_replaces_the_row_of_its_scenario_in_the_page(tmp_path: Path) -> None:
    file = tmp_path / "proof.md"
    file.write_text(f"# Proof\n\n{page.BEGIN}\n{page.END}\n\nBelow.\n")
    page.write(file, Outcomes.control({"lost": 3}), "Kafka 4.3, three brokers")
    for seed in (1, 2, 2):
        page.write(file, Outcomes.clean(seed), "Kafka 4.3, three brokers")
    text = file.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split("|")[1].strip() for row in rows] == [
        "`kafka-leader`",
        "`kafka-leader-relaxed`",
    ]
    assert "| 1, 2 | 1,200 | 7 | 2,500 | 4 by fault | clean | 12 s | 95, 31 |" in rows[0]
    assert "`kafka-lease`" in text.partition("Not run yet: ")[2], (
        "scenarios without a row are named"
    )
    assert "`kafka-leader`" not in text.partition("Not run yet: ")[2]
    assert "convicted: 3 lost" in rows[1]
    assert text.count("- kafka: Kafka 4.3, three brokers.") == 1
    assert text.startswith("# Proof\n")
    assert text.endswith("\n\nBelow.\n")


def test_a_trial_that_did_not_come_to_its_end_replaces_the_row_of_an_earlier_one(
    tmp_path: Path,
) -> None:
    file = tmp_path / "proof.md"
    file.write_text(f"{page.BEGIN}\n{page.END}\n")
    page.write(file, Outcomes.clean(1), "Kafka")
    failed = Result(SCENARIOS[0], 1, remarks=["did not come to its end: a | b\nand more lines"])
    page.write(file, failed, "Kafka")
    (row,) = [line for line in file.read_text().splitlines() if line.startswith("| `")]
    assert "| did not come to its end: a / b |" in row
    assert "clean" not in row
    assert row.count("|") == len(page.HEADINGS) + 1


def test_a_commit_is_marked_if_the_proof_differs_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(page, "git", lambda *words: asked.append(words) or "")
    page.commit()
    assert asked[0][-2:] == ("app", "tests/proof")


def test_a_run_without_a_sign_of_its_attack_says_so_and_does_not_fail() -> None:
    progress = Progress(Path("load"), Path("target"), ["steady"])
    result = Outcomes.clean(1)
    result.repeats = {}
    note_signs(result, progress, Pauses())
    assert page.verdict(result) == "clean; no sign of the attack"
    assert result.as_expected
    progress.moved = 2
    result = Outcomes.clean(1)
    note_signs(result, progress, Pauses())
    assert result.signs == {"moved": 2, "repeated": 4}
    assert page.verdict(result) == "clean"


def test_a_pause_is_no_sign_that_workers_failed_meanwhile() -> None:
    """Each pause is answered, so that the attack on the workers would never lack a sign."""
    pauses = Pauses()
    pauses.note("pause", "steady", 200)
    for name in ("kafka-pause", "kafka-pause-ignored"):
        result = Outcomes.clean(1)
        result.scenario, result.repeats = scenario(name), {}
        note_signs(result, Progress(Path("a"), Path("b"), ["steady"]), pauses)
        assert "no sign of the attack" in result.notes


def test_a_pause_without_an_answer_fails_only_an_attack_by_pauses() -> None:
    pauses = Pauses()
    pauses.note("pause", "steady", 200)
    pauses.note("resume", "steady", None)
    assert pauses.waiting == {"steady"}, "it is resumed again in the end"
    pauses.note("pause", "steady", 503)
    for name, as_expected in (("kafka-pause", False), ("kafka-random", True)):
        result = Outcomes.clean(1)
        result.scenario = scenario(name)
        note_signs(result, Progress(Path("a"), Path("b"), ["steady"]), pauses)
        assert result.as_expected is as_expected
        assert "1 of 2 pauses were not answered 2xx" in page.verdict(result)


def test_the_calm_part_of_a_run_is_outside_of_the_window_of_every_fault() -> None:
    assert outside([], 10, 30) == 20
    assert outside([(12, 15), (14, 20), (25, 40)], 10, 30) == 7
    assert outside([(0, 5), (35, 40)], 10, 30) == 20
    assert outside([(5, 50)], 10, 30) == 0


async def test_batches_and_every_second_single_event_have_receipts(tmp_path: Path) -> None:
    asked: list[tuple[bool, bool]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                request = await read_message(reader)
                batch = "batch" in request.headers["content-type"]
                wishes = request.headers.get("prefer") == "return=representation"
                asked.append((batch, wishes))
                count = len(received(request))
                places = [
                    {"index": at, "broker": "b", "topic": "t", "partition": 0,
                     "position": f"{len(asked)}-{at}"} for at in range(count)
                ]  # fmt: skip
                body = json.dumps(places).encode() if wishes else b""
                writer.write(b"HTTP/1.1 %d X\r\n" % (200 if wishes else 202))
                writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()
        await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    gateway = Gateway("gateway1", *server.sockets[0].getsockname()[:2])
    history, stopping = HistoryWriter(tmp_path / "load.jsonl"), asyncio.Event()
    sender = Sender("key0", [gateway], history, random.Random(1), 0.001)
    running = asyncio.create_task(sender.run(stopping))
    await until(lambda: len({*asked}) == 3 and len(asked) > 20, "requests of all kinds")
    stopping.set()
    await running
    await ended.wait()
    server.close()
    history.close()
    single = [wishes for batch, wishes in asked if not batch]
    assert single == [at % 2 == 0 for at in range(len(single))]
    assert all(wishes for batch, wishes in asked if batch)
    events = [
        (each.status, event.receipt is not None)
        for line in read_history([tmp_path / "load.jsonl"])
        if isinstance(each := line.record, Request)
        for event in each.events
    ]
    assert set(events) == {(200, True), (202, False)}


async def test_what_no_gateway_can_read_does_not_count_as_sent(tmp_path: Path) -> None:
    """The checker allows a repeat for each time that the sender sent."""
    accepted = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(accepted)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    gateway = Gateway("gateway1", *server.sockets[0].getsockname()[:2])
    history, stopping = HistoryWriter(tmp_path / "load.jsonl"), asyncio.Event()
    sender = Sender("key0", [gateway], history, random.Random(1), 0.05)
    running = asyncio.create_task(sender.run(stopping))
    await until(lambda: sender.next > 5, "five events")
    stopping.set()
    await running
    server.close()
    history.close()
    sent = [line.record for line in read_history([tmp_path / "load.jsonl"])]
    assert {each.status for each in sent if isinstance(each, Request)} == {202}

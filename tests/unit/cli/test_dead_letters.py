"""``skybridge dead-letters``, ``attempts`` and ``parked``, against the admin application over a real store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from typer.main import get_command
from typer.testing import CliRunner

from admin_app import admin_app
from app.cli import dead_letters, exits, printing, redrive_progress
from app.cli.commands import app
from app.interfaces import DeadLetterFilter
from letters_service import FakeLettersService, a_letter, a_message, a_row, an_attempt
from waiting import wait_until

VERBS = ("list", "show", "count", "redrive", "discard")


class Served:
    """The service behind a real port, on a loop of its own thread."""

    def __init__(self, folder: Path) -> None:
        self.service = FakeLettersService(folder)
        self.url = ""
        self._loop = asyncio.new_event_loop()
        application = admin_app(self.service)
        self._server = uvicorn.Server(
            uvicorn.Config(application, port=0, log_level="error", lifespan="off", ws="none")
        )
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))

    async def _run(self) -> None:
        await self.service.store.start()
        await self._server.serve()
        await self.service.store.stop()

    def start(self) -> None:
        self._thread.start()
        wait_until(lambda: self._server.started, "server", 60)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(60)
        self._loop.close()

    def do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def fill(self, *found: Any) -> None:
        for letter in found:
            self.do(self.service.store.letters.add(letter))

    def run(self, *words: str) -> Any:
        return CliRunner().invoke(app, [*words, "--server", self.url])

    def letters(self, *words: str) -> Any:
        return self.run("dead-letters", *words)

    @property
    def left(self) -> int:
        return sum(self.do(self.service.store.letters.count(DeadLetterFilter())).values())


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    served.start()
    try:
        yield served
    finally:
        served.stop()


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_teaches_with_examples_that_parse(verb: str) -> None:
    """Nobody has to look for a manual first."""
    command = get_command(dead_letters.app).commands[verb]  # type: ignore[attr-defined]
    for example in examples_of(command):
        words = shlex.split(example, comments=True)[3:]
        command.make_context(verb, words)


@pytest.mark.parametrize("verb", ["attempts", "parked"])
def test_examples_of_attempts_and_parked_parse(verb: str) -> None:
    command = get_command(app).commands[verb]  # type: ignore[attr-defined]
    for example in examples_of(command):
        words = shlex.split(example.split(" | ")[0], comments=True)[2:]
        command.make_context(verb, words)


def examples_of(command: Any) -> list[str]:
    found = [
        line.strip() for line in command.help.split("Examples:")[1].splitlines() if line.strip()
    ]
    assert found
    return found


def test_list_shows_a_line_a_letter_over_all_pages(served: Served) -> None:
    """Also those beyond the first page; and says when there are more."""
    served.fill(*map(a_letter, range(3)))
    result = served.letters("list", "--limit", "2")
    assert [line.split()[-1] for line in result.stdout.splitlines()] == ["EVENT_ID", "2", "1"]
    assert "There are more dead letters" in result.stderr
    result = served.letters("list", "--json", "--type", "com.example.*")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [3, 2, 1]


def test_show_tells_place_cause_event_and_attempts(served: Served) -> None:
    """What a person needs to decide; nothing that a terminal would obey."""
    served.fill(a_letter(1, detail="415 \x1b[31mred"))
    served.do(served.service.store.attempts.add([an_attempt(1, outcome="dead-letter", status=415)]))
    out = served.letters("show", "1").stdout
    assert "log/orders/0@1" in out
    assert "\x1b" not in out
    assert "com.example.order" in out
    assert "dead-letter" in out


def test_show_writes_data_as_json(served: Served) -> None:
    """What is shown can be pasted into a file; it is no value of Python."""
    body = b'{"paid":true,"by":null}'
    served.fill(a_letter(1, message=a_message(1, body=body)))
    line = next(
        each
        for each in served.letters("show", "1").stdout.splitlines()
        if each.split()[0] == "data"
    )
    assert json.loads(line.split(maxsplit=1)[1]) == {"paid": True, "by": None}


def test_a_letter_that_is_not_there_exits_1_with_its_cure(served: Served) -> None:
    result = served.letters("show", "17")
    assert result.exit_code == exits.FAILED
    assert "dead-letters list" in " ".join(result.stderr.split())


def test_count_is_a_table_or_one_object(served: Served) -> None:
    served.fill(a_letter(1), a_letter(2, cause="timeout"))
    assert served.letters("count").stdout.splitlines()[1].split() == ["billing", "status-415", "1"]
    assert json.loads(served.letters("count", "--json", "--cause", "timeout").stdout)["total"] == 1


@pytest.mark.parametrize(
    "words",
    [
        "dead-letters list -s nope",
        "dead-letters count -s nope",
        "dead-letters discard -s nope --yes",
        "attempts --subscription nope",
        "parked --subscription nope",
    ],
)
def test_an_unknown_subscription_is_not_an_empty_table(served: Served, words: str) -> None:
    """Exit code 0 and no row said that all is well with a misspelt id."""
    result = served.run(*words.split())
    assert result.exit_code == exits.FAILED
    told = " ".join(result.stderr.split())
    assert "subscription nope does not exist" in told
    assert "skybridge subscriptions list" in told


def test_a_spool_without_letters_is_an_empty_table(served: Served) -> None:
    for verb in ("list", "count"):
        assert served.letters(verb, "-s", "spool:orders").exit_code == exits.OK


def test_letters_of_a_deleted_subscription_are_listed(served: Served) -> None:
    served.fill(a_letter(1, subscription="gone"))
    assert served.letters("list", "-s", "gone").exit_code == exits.OK


def test_a_misspelt_time_is_refused_and_chooses_nothing(served: Served) -> None:
    """It must not become "all"."""
    served.fill(a_letter(1))
    result = served.letters("discard", "--since", "yesterday", "--yes")
    assert result.exit_code == exits.SETUP
    assert "--since yesterday is not a time." in result.stderr
    assert served.left == 1


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_nobody_to_ask_is_no_yes(served: Served, verb: str) -> None:
    """In a pipeline nothing is thrown away by a question that nobody saw."""
    served.fill(a_letter(1))
    result = served.letters(verb)
    assert result.exit_code == exits.SETUP
    assert "--yes" in result.stderr
    assert served.left == 1


def test_json_without_yes_counts_only(served: Served) -> None:
    """The dry run of machines."""
    served.fill(a_letter(1))
    for verb in ("redrive", "discard"):
        said = json.loads(served.letters(verb, "--json").stdout)
        assert (said["dry_run"], said["matched"]) == (True, 1)
    assert served.left == 1


def test_discard_says_what_goes_and_throws_it_away(served: Served) -> None:
    served.fill(a_letter(1), a_letter(2, cause="timeout"))
    result = served.letters("discard", "--cause", "timeout", "--yes")
    assert result.stdout.splitlines()[-1] == "discarded 1"
    assert served.left == 1


def test_nothing_to_do_is_done(served: Served) -> None:
    """No question, no error."""
    assert served.letters("redrive").exit_code == exits.OK
    assert served.letters("discard").exit_code == exits.OK


@pytest.fixture
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive_progress, "PORTION", 2)
    monkeypatch.setattr(redrive_progress, "POLL", 0.02)


@pytest.mark.usefixtures("_small_portions")
def test_a_redrive_goes_in_portions_and_is_followed_to_its_end(served: Served) -> None:
    """All of them, whatever a request takes at most; the bar ends when the last row is gone."""
    served.fill(*map(a_letter, range(5)))
    with _draining(served):
        result = served.letters("redrive", "--yes", "--rate", "1000")
    assert result.exit_code == exits.OK, result.output
    assert "redriven: 5 dead letters" in result.stdout
    assert "5/5" in result.stderr
    assert served.left == 0


@pytest.mark.usefixtures("_small_portions")
def test_what_is_dead_again_is_told_and_not_redriven_for_ever(served: Served) -> None:
    """A target that was not mended: each letter is tried once, and the operator is told."""
    served.fill(*map(a_letter, range(4)))
    with _draining(served, dead={0, 3}):
        said = json.loads(served.letters("redrive", "--yes", "--json").stdout)
    assert said == {"redriven": 4, "left": 0, "dead_again": 2}
    assert served.left == 2


def test_several_subscriptions_may_be_named(served: Served) -> None:
    for number, name in enumerate(("billing", "mail", "other")):
        letter = a_letter(number, subscription=name)
        served.do(served.service.store.letters.add(letter))
    both = ("-s", "billing", "--subscription", "mail")
    found = json.loads(served.letters("count", *both, "--json").stdout)
    assert [each["subscription"] for each in found["counts"]] == ["billing", "mail"]
    found = json.loads(served.letters("redrive", *both, "--json").stdout)
    assert (found["dry_run"], found["matched"]) == (True, 2)
    said = served.letters("redrive", *both, "--yes", "--no-wait", "--json").stdout
    assert json.loads(said)["redriven"] == 2
    left = json.loads(served.letters("count", "--json").stdout)["counts"]
    assert [each["subscription"] for each in left] == ["other"]


def test_a_halted_subscription_is_not_waited_for(served: Served) -> None:
    """Its rows wait until somebody lets it deliver: that is said, instead of a bar that stands."""
    served.service.paused = {"billing"}
    served.fill(a_letter(1))
    result = served.letters("redrive", "--yes")
    assert "paused by its configuration" in result.stderr
    assert "in delivery: 1" in result.stdout


def test_no_wait_leaves_at_once(served: Served) -> None:
    served.fill(a_letter(1))
    assert "skybridge parked" in served.letters("redrive", "--yes", "--no-wait").stdout


def test_attempts_are_a_table_or_lines(served: Served) -> None:
    served.do(served.service.store.attempts.add([an_attempt(1), an_attempt(2, event=7)]))
    assert len(served.run("attempts").stdout.splitlines()) == 3
    (line,) = served.run("attempts", "--event", "7", "--json").stdout.splitlines()
    assert json.loads(line)["number"] == 2


def test_an_event_that_waits_is_told_beside_its_attempts(served: Served) -> None:
    rows = [a_row(1, key=b"a"), a_row(2, key=b"a")]
    served.do(served.service.store.parked.park(rows))
    (told,) = served.run("attempts", "--event", "2").stdout.splitlines()[1:]
    assert told.split()[:8] == ["-", "billing", "2", "-", "waits", "-", "-", "-"]
    assert told.endswith("parked, after event 1 of /shop")
    (line,) = served.run("attempts", "--event", "2", "--json").stdout.splitlines()
    assert json.loads(line)["behind"]["id"] == "1"


def test_parked_shows_keys(served: Served) -> None:
    rows = [a_row(1, key=b"a"), a_row(2, key=b"a"), a_row(3, key=b"b")]
    served.do(served.service.store.parked.park(rows))
    out = served.run("parked").stdout.splitlines()
    assert [line.split()[1:3] for line in out[1:]] == [["a", "2"], ["b", "1"]]
    assert len(served.run("parked", "--json", "-s", "mail").stdout.splitlines()) == 0


def test_a_key_whose_wait_is_over_is_due(served: Served) -> None:
    """A moment that is past, or the first of 1970, tells nobody when."""
    later_ms = 4_102_444_800_000
    rows = [a_row(1, key=b"a"), a_row(2, key=b"b", due_ms=later_ms)]
    served.do(served.service.store.parked.park(rows))
    head, *lines = (line.split() for line in served.run("parked").stdout.splitlines())
    assert [line[head.index("NEXT_TRY")] for line in lines] == ["due", "2100-01-01T00:00:00Z"]


def test_moments_are_rfc_3339() -> None:
    assert printing.moment(1_767_225_600_000) == "2026-01-01T00:00:00Z"


@contextlib.contextmanager
def _draining(served: Served, dead: set[int] = frozenset()) -> Iterator[None]:  # type: ignore[assignment]
    """Plays the worker: rows go, a few of them are dead letters again."""
    over = threading.Event()

    def drain() -> None:
        store = served.service.store
        while not over.wait(0.01):
            for row in served.do(store.parked.find()):
                number = int(row.event.id)
                if number in dead:
                    now_ms = int(served.service.clock.now() * 1000)
                    letter = a_letter(number, at_ms=now_ms)
                    served.do(store.letters.add(letter, row.id))
                else:
                    served.do(store.parked.unpark([row]))

    worker = threading.Thread(target=drain)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join(60)

"""The store in memory, which other tests use, does what SQLite does, whatever is asked of both."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import store_samples as house
from app.errors import SkybridgeError
from app.interfaces import AttemptFilter, Command, Commit, DeadLetterFilter, PullMessage
from app.store import open_store
from example_counts import examples
from folder_in_memory import folder_in_memory
from memory_store import MemoryStore

MINE = (house.SUBSCRIPTION, house.BROKER)
MAX_LETTERS = 4

few, numbers = st.integers(0, 3), st.integers(1, 6)
epochs, times = st.integers(4, 6), st.integers(0, 4).map(lambda n: house.NOW + n * 1000)
names, lanes = st.sampled_from([house.SUBSCRIPTION, "audit"]), st.sampled_from([b"a", b"b"])
places = st.sampled_from([house.ORDERS, house.PAYMENTS])
choices = st.sampled_from(
    [
        house.ALL,
        DeadLetterFilter(subscription="audit"),
        DeadLetterFilter(ids=(1, 2)),
        DeadLetterFilter(until_ms=house.NOW),
    ]
)
kept = {"partition": places, "epoch": epochs, "subscription": names}
letters = st.builds(house.a_letter, few, lane=lanes, **kept)
parked = st.builds(house.a_row, few, lanes, due_ms=times, **kept)
offered = st.builds(house.an_offer, few, lanes, **kept)
attempts = st.builds(house.an_attempt, few, outcome=st.sampled_from(["retry", "delivered"]))


def _step(concern: str, verb: str, *args: Any, **more: Any) -> st.SearchStrategy[Any]:
    return st.tuples(st.just(concern), st.just(verb), st.tuples(*args), st.fixed_dictionaries(more))


def _tokens() -> st.SearchStrategy[list[int]]:
    """By their turn: each store has its own."""
    return st.lists(st.integers(0, 4), max_size=2, unique=True)


STEPS = st.one_of(
    _step("owners", "own", names, st.just(house.BROKER), st.lists(places, max_size=2), epochs),
    _step("letters", "add", letters, st.none() | numbers),
    _step("letters", "find", choices, numbers, st.none() | numbers),
    _step("letters", "count", choices),
    _step("letters", "discard", choices),
    _step("letters", "redrive", choices, rate=st.sampled_from([0, 2]), now_ms=times, limit=few),
    _step("parked", "park", st.lists(parked, max_size=3), numbered=st.booleans()),
    _step("parked", "unpark", st.lists(st.builds(replace, parked, id=numbers), max_size=2)),
    _step("parked", "defer", st.builds(replace, parked, id=numbers, attempts=few)),
    _step("parked", "lanes", names, st.just(house.BROKER), st.just([house.ORDERS, house.PAYMENTS])),
    _step(
        *("parked", "rows", names, st.just(house.BROKER), places, lanes),
        after=st.integers(-1, 3),
        limit=few,
    ),
    _step(
        *(
            "parked",
            "redriven",
            names,
            st.just(house.BROKER),
            st.just(dict.fromkeys((house.ORDERS, house.PAYMENTS), 5)),
        ),
        limit=few,
    ),
    _step("parked", "count"),
    _step("parked", "keys", st.none() | names, few),
    _step("parked", "find", st.none() | names, few, few),
    _step("attempts", "add", st.lists(attempts, max_size=3), st.lists(attempts, max_size=1)),
    _step("attempts", "find", st.builds(AttemptFilter, outcome=st.none() | st.just("retry"))),
    _step("attempts", "trim", before_ms=st.integers(house.NOW, house.NOW + 3), most=few),
    _step(
        *("subscriptions", "put", names, st.binary(max_size=2)),
        expected=st.none() | few,
        now_ms=times,
    ),
    _step("subscriptions", "delete", names, expected=st.none() | few),
    _step("subscriptions", "all"),
    _step("halts", "halt", names, st.sampled_from(["paused", "disabled"]), st.text(), times),
    _step("halts", "allow", names),
    _step("halts", "all"),
    _step(
        *("commands", "ask"),
        st.builds(
            Command,
            subscription=names,
            kind=st.sampled_from(["test", "retry"]),
            body=st.just(b""),
            asked_ms=times,
        ),
    ),
    _step("commands", "take", st.lists(names), times.map(lambda at: at + 58_000)),
    _step("commands", "retries", st.lists(names), times.map(lambda at: at + 58_000)),
    _step("commands", "answer", numbers, st.binary(max_size=2)),
    _step("commands", "get", numbers),
    _step("replays", "ask", st.lists(st.builds(house.a_replay, subscription=names), max_size=2)),
    _step(
        "replays",
        "save",
        st.builds(house.a_replay, id=numbers, done=few, subscription=names),
        epochs,
    ),
    _step("replays", "all", st.none() | names),
    _step("replays", "end", numbers),
    _step("pulled", "offer", st.lists(offered, max_size=3)),
    _step(
        "pulled",
        "receive",
        names,
        most=few,
        most_bytes=st.sampled_from([1, 1 << 20]),
        lock_ms=st.just(1500),
        now_ms=times,
    ),
    _step("pulled", "locked", names, _tokens(), times),
    _step("pulled", "acknowledge", names, _tokens(), times),
    _step("pulled", "release", names, _tokens(), delay_ms=st.just(700), now_ms=times),
    _step("pulled", "renew", names, _tokens(), lock_ms=st.just(900), now_ms=times),
    _step("pulled", "bury", st.dictionaries(st.integers(0, 4), letters, max_size=2), times),
    _step("pulled", "worn_out", names, most_deliveries=numbers, now_ms=times),
    _step("pulled", "count", names),
    _step("offsets", "start_offsets", *map(st.just, MINE), st.just({house.ORDERS: Commit(1)})),
    _step(
        "offsets",
        "own_offsets",
        *map(st.just, MINE),
        epochs,
        st.just([house.ORDERS, house.PAYMENTS]),
    ),
    _step(
        *("offsets", "save_offsets", *map(st.just, MINE), epochs),
        st.dictionaries(places, st.builds(Commit, few), max_size=2),
    ),
    _step("offsets", "offsets", *map(st.just, MINE), st.just([house.ORDERS, house.PAYMENTS])),
)


class Side:
    """One of the two stores. Its tokens are told by their turn, and told apart by nothing else."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self._tokens: list[str] = []

    async def do(self, concern: str, verb: str, args: Any, more: Any) -> Any:
        if concern == "pulled" and verb in {"locked", "acknowledge", "release", "renew", "bury"}:
            args = [self._named(each) for each in args]
        try:
            answer = await getattr(getattr(self.store, concern), verb)(*args, **more)
        except SkybridgeError as error:
            return type(error), getattr(error, "found", None)
        return self._plain(answer)

    def _named(self, argument: Any) -> Any:
        """Numbers of tokens as tokens."""
        if isinstance(argument, list):
            return [self._token(number) for number in argument]
        if isinstance(argument, dict):
            return {self._token(number): value for number, value in argument.items()}
        return argument

    def _token(self, number: int) -> str:
        return self._tokens[number] if number < len(self._tokens) else f"none {number}"

    def _plain(self, answer: Any) -> Any:
        if isinstance(answer, list) and answer and isinstance(answer[0], PullMessage):
            return [replace(row, token=str(self._turn(row.token))) for row in answer]
        if isinstance(answer, dict) and any(isinstance(key, str) for key in answer):
            return {self._tokens.index(k) if k in self._tokens else k: v for k, v in answer.items()}
        return answer

    def _turn(self, token: str) -> int:
        if token not in self._tokens:
            self._tokens.append(token)
        return self._tokens.index(token)


@examples(30)
@given(st.lists(STEPS, max_size=40))
def test_the_store_in_memory_and_sqlite_agree(steps: list[Any]) -> None:
    """What is proven with the one in memory holds for the one that people run."""
    asyncio.run(agree(steps))


async def agree(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory(dir=folder_in_memory()) as folder:
        real = open_store(Path(folder) / "store.db", timeout=60, max_letters=MAX_LETTERS)
        await real.start()
        try:
            one, other = Side(real), Side(MemoryStore(MAX_LETTERS))
            for step in steps:
                assert await one.do(*step) == await other.do(*step), step
            revisions = [await each.store.subscriptions.revision() for each in (one, other)]
            assert revisions[0] == revisions[1]
        finally:
            await real.stop()

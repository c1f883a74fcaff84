"""A key waits once, has one timer, and is tried less often the more often its work fails."""

import asyncio

import pytest

from app.kubernetes.key_queue import KeyQueue

KEY = ("team", "a")


@pytest.fixture
def queue():
    return KeyQueue()


def waits(queue):
    """Return the seconds until each key with a timer is put into the queue."""
    now = asyncio.get_running_loop().time()
    return [round(each.when() - now, 1) for each in queue._timers.values()]


async def test_a_key_has_one_timer_the_earliest(queue):
    """Each look at an object that drains sets one, and each change of it is another look (issue 46)."""
    for seconds in (30.0, 10.0, 20.0):
        queue.add_later(KEY, seconds)
    assert waits(queue) == [10.0]


async def test_a_key_that_fails_again_waits_longer_until_it_succeeds(queue):
    """A thousand objects would else ask an API server under load five hundred times a second (issue 46)."""
    found = []
    for fails in (True, True, True, True, True, False, True):
        queue.add(KEY)
        assert await queue.take(1.0) == KEY
        if fails:
            queue.add_failed(KEY, 2.0)
            found += waits(queue)
            queue._timers.pop(KEY).cancel()
        queue.done(KEY)
    assert found == [2.0, 4.0, 8.0, 15.0, 15.0, 2.0]


async def test_a_key_in_work_is_taken_by_no_other_task(queue):
    queue.add(KEY)
    await queue.take(1.0)
    queue.add(KEY)
    other = asyncio.create_task(queue.take(0.0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not other.done()
    queue.done(KEY)
    assert await other == KEY


async def test_a_namespace_with_many_changes_delays_no_other(queue):
    """A tenant with thousands of objects would else delay the change of another one by a minute (issue 46)."""
    for number in range(1000):
        queue.add(("busy", str(number)))
    queue.add(KEY)
    first = [await queue.take(1.0) for _ in range(3)]
    assert first == [("busy", "0"), KEY, ("busy", "1")]
    assert queue.waiting == 1001

"""The copy of a list calls only for what changed, and stays as it was while the API server is away."""

import asyncio
import itertools

import pytest

from app.kubernetes.client import KubernetesRefused, KubernetesUnavailable
from app.kubernetes.watched import Watched


def an_item(name, version, generation=1):
    return {"metadata": {"name": name, "resourceVersion": str(version), "generation": generation}}


class Client:
    """Answers each list and each watch with the next of a script, and then waits."""

    def __init__(self, lists, watches):
        self.lists, self.watches = iter(lists), iter(watches)

    async def list(self, *_):
        found = next(self.lists, None)
        if isinstance(found, Exception):
            raise found
        if found is None:
            await asyncio.Event().wait()
        return found, "1"

    async def watch(self, *_):
        for each in next(self.watches, [None]):
            if isinstance(each, Exception):
                raise each
            if each is None:
                await asyncio.Event().wait()
            yield each


class Counted:
    """Calls a function, and counts the calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *given):
        self.calls += 1
        return self.function(*given)


async def run(watched):
    task = asyncio.create_task(watched.run())
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])


async def test_only_what_changed_is_told(monkeypatch):
    monkeypatch.setattr("app.kubernetes.watched._FIRST_WAIT", 0.0)
    told = []
    client = Client(
        [[an_item("a", 1), an_item("b", 1)], KubernetesUnavailable("away"), [an_item("a", 3, 2)]],
        [
            [
                ("MODIFIED", an_item("a", 2)),
                ("BOOKMARK", an_item("", 2)),
                ("MODIFIED", an_item("a", 3, 2)),
            ],
            [KubernetesRefused(410, "too old")],
        ],
    )
    watched = Watched(
        client, "path", told.append, shape=lambda each: each["metadata"]["generation"]
    )
    await run(watched)
    assert sorted(told[:2]) == ["a", "b"]
    assert told[2:] == ["a", "b"], "a has another generation, then b is gone from the list"
    assert {*watched.objects} == {"a"}
    assert (watched.complete, watched.trouble) == (True, "")


async def test_while_the_server_is_away_the_copy_stays():
    client = Client([[an_item("a", 1)]], [[KubernetesUnavailable("away")]])
    watched = Watched(client, "path", lambda _: None)
    await run(watched)
    assert ({*watched.objects}, watched.trouble) == ({"a"}, "away")


@pytest.mark.parametrize(
    "ends", [[KubernetesRefused(410, "too old")], [], [KubernetesRefused(403, "forbidden")]]
)
async def test_a_watch_that_ends_at_once_is_not_begun_again_without_a_pause(ends):
    """An API server under load, or without the version, would else get a thousand requests a second (issue 46)."""
    client = Client([[], [], []], itertools.repeat(ends))
    watched = Watched(client, "path", lambda _: None)
    client.watch = counted = Counted(client.watch)
    await run(watched)
    assert counted.calls == 1


async def test_a_copy_that_may_not_be_read_any_more_is_not_complete(monkeypatch):
    """A namespace of the same name may belong to others by now, and its Secrets are other ones (issue 46)."""
    monkeypatch.setattr("app.kubernetes.watched._FIRST_WAIT", 0.0)
    forbidden = KubernetesRefused(403, "forbidden")
    watched = Watched(
        Client([[an_item("a", 1)], forbidden], [[("MODIFIED", an_item("a", 2))], [forbidden]]),
        "path",
        lambda _: None,
    )
    await run(watched)
    assert (watched.complete, watched.trouble) == (False, "forbidden")
    watched._client = Client([[an_item("a", 3)]], [])
    await run(watched)
    assert (watched.complete, watched.trouble) == (True, "")

"""``skybridge explain`` as a person runs it: by a file and by a service; nothing is ever sent."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import httpx
import pytest

from child_service import run, running_command
from configuration import configuration, route, written
from pages import CHECKOUT, blocks

PAGE = CHECKOUT / "docs/guides/explain.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the configuration that the guide shows."""
    (configuration,) = [each for each in blocks(PAGE) if each.language == "yaml"]
    (tmp_path / "shop.yaml").write_text(configuration.text)
    return tmp_path


async def test_the_guide_shows_what_is_printed(folder: Path) -> None:
    (session,) = [each.text for each in blocks(PAGE) if each.language == "console"]
    command, _, expected = session.partition("\n")
    code, said, _ = await run(folder, *shlex.split(command.removeprefix("$ skybridge ")))
    assert said.rstrip().splitlines() == expected.rstrip().splitlines()
    assert code == 0


async def test_what_would_be_refused_exits_with_1_and_says_what_the_sender_would_be_told(
    folder: Path,
) -> None:
    code, said, _ = await run(folder, "explain", "--config", "shop.yaml", "--type", "other")
    assert code == 1
    assert "refused 422" in said
    assert "type is 'other'" in said, "and why no route took it"
    assert "--as-from" in said, "and how to ask for what needs none"
    code, said, _ = await run(
        folder, "explain", "--config", "shop.yaml", "--type", "other", "--as-from", "log/orders"
    )
    assert (code, "to      log/orders  by another client" in said) == (0, True)


async def test_the_filters_of_a_route_that_the_request_names_are_not_evaluated(
    folder: Path,
) -> None:
    words = ("explain", "--config", "shop.yaml", "--type", "other", "--route", "orders")
    code, said, _ = await run(folder, *words)
    assert (code, said.splitlines()[1]) == (
        0,
        "route   orders  taken: the request names the route, so its filters are not evaluated",
    )


async def test_a_broken_event_is_told_with_its_fault(folder: Path) -> None:
    (folder / "event.json").write_text('{"specversion": "1.0"}')
    code, _, errors = await run(folder, "explain", "event.json", "--config", "shop.yaml")
    assert code == 1
    assert "id" in errors


async def test_a_service_explains_with_the_partition_and_stores_nothing(tmp_path: Path) -> None:
    written(configuration(tmp_path, routes=[route(key={"mapper": "partitionkey"})]), tmp_path)
    async with running_command(tmp_path, "serve", "--config", "skybridge.yaml") as service:
        server = service.announced["admin"]
        words = ("--server", server, "-t", "com.example.t", "-a", "partitionkey=k", "--json")
        code, said, errors = await run(tmp_path, "explain", *words)
        assert code == 0, errors
        (hop,) = json.loads(said)["hops"]
        topics = httpx.get(f"{server}/v1/topics", timeout=120).json()
        ends = {each["latest"] for topic in topics for each in topic["partitions"]}
        assert hop["topic"] == "events"
        assert ends <= {"0"}, "nothing was stored"


async def test_an_event_of_no_producer_is_no_event_that_is_taken(tmp_path: Path) -> None:
    """Where only producers may send, the answer says that the rights of none were asked."""
    settings = configuration(
        tmp_path,
        routes=[route()],
        server={"events": {"access": "producers"}},
        producers=[{"name": "shop", "keys": ["key-of-the-shop-1234"]}],
    )
    written(settings, tmp_path)
    async with running_command(tmp_path, "serve", "--config", "skybridge.yaml") as service:
        server = service.announced["admin"]
        for words in (("--server", server), ("--config", "skybridge.yaml")):
            _, said, _ = await run(tmp_path, "explain", "-t", "com.example.t", *words)
            assert "without a credential the answer is 401" in said
            code, said, _ = await run(
                tmp_path, "explain", "-t", "com.example.t", "--producer", "shop", *words
            )
            assert (code, "401" in said) == (0, False)

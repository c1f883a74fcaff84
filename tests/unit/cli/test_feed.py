"""Where the feed comes from, and that a generator stands in honestly."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from app.cli import feed
from app.cli.feed import payloads
from app.errors import SetupError

RECEIVED = "2026-11-21T00:00:00Z"


def tarball(folder: Path) -> Path:
    kinds = (
        '[{"name": "push", "examples": [{"a": 1.10}, { "b":2 }]}, {"name": "x", "examples": []}]'
    )
    content = kinds.encode()
    file = folder / payloads.TARBALL
    with tarfile.open(file, "w:gz") as archive:
        member = tarfile.TarInfo("package/api.github.com/index.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file


def test_payloads_keep_the_bytes_they_have_in_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers and white space included."""
    file = tarball(tmp_path)
    monkeypatch.setattr(payloads, "SHA512", hashlib.sha512(file.read_bytes()).hexdigest())
    assert payloads.payloads(tmp_path) == [("push", b'{"a": 1.10}'), ("push", b'{ "b":2 }')]


def test_a_package_with_another_digest_is_refused(tmp_path: Path) -> None:
    """Whatever came instead is not what the demo says it sends."""
    tarball(tmp_path)
    with pytest.raises(SetupError, match="is not"):
        payloads.payloads(tmp_path)


def test_without_npm_the_demo_says_that_it_generates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may take made-up events for the real ones."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = feed.load_feed({"SKYBRIDGE_CACHE": str(tmp_path)}, RECEIVED, 10)
    assert len(found.events) == 10
    assert found.origin == "10 generated events (npm is not installed)"


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"SKYBRIDGE_CACHE": "/c"}, Path("/c")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/skybridge")),
        ({}, Path.home() / ".cache" / "skybridge"),
    ],
)
def test_cache_folder_is_the_users(environ: dict[str, str], folder: Path) -> None:
    """Fetched once, kept out of the repository."""
    assert payloads.cache_folder(environ) == folder


def test_generated_feed_is_the_same_every_time() -> None:
    """A demo that fails must fail again."""
    assert feed.orders(50, received=RECEIVED) == feed.orders(50, received=RECEIVED)


def test_generated_orders_go_through_their_steps_in_order() -> None:
    """Order per key has to mean something to be worth keeping."""
    seen: dict[str, list[str]] = {}
    for event in feed.orders(1000, received=RECEIVED):
        assert json.loads(event.data or b"")["step"] == event.type.rpartition(".")[2]
        seen.setdefault(event.attributes["subject"], []).append(event.type.rpartition(".")[2])
    steps = {tuple(order) for order in seen.values() if len(order) == 4}
    assert steps <= {
        ("created", "paid", "packed", "shipped"),
        ("created", "disputed", "packed", "shipped"),
    }


def test_generated_feed_has_something_to_refuse() -> None:
    """The demo shows a dead letter with this feed too."""
    events = feed.orders(329, received=RECEIVED)
    assert any(event.type == "com.example.order.disputed" for event in events)

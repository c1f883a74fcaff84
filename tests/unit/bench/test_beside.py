"""The adapter of ``make bench`` that measures a peer, with a small ASGI server of our own as the peer."""

from __future__ import annotations

import importlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from free_ports import free_ports
from pages import CHECKOUT

BENCH = CHECKOUT / "tests" / "bench"
PATH = os.pathsep.join(map(str, (BENCH, CHECKOUT, CHECKOUT / "tests" / "support")))


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(BENCH)
    monkeypatch.setenv("PYTHONPATH", PATH)
    return


def _serving(port: int) -> list[str]:
    """Below a shell, as a script that prepares files has it."""
    server = f"{sys.executable} {BENCH / 'floors.py'} nothing --port {port}"
    return ["sh", "-c", f"{server} & wait", "{address}"]


def _module(name: str) -> Any:
    return importlib.import_module(name)


@pytest.mark.nightly
def test_a_peer_is_measured_in_turns_with_skybridge_and_stopped(tmp_path: Path):
    beside, (port,) = _module("beside"), free_ports(1)
    url = f"http://127.0.0.1:{port}/any/path?of=it"
    asked = beside.Asked("a bare server", url, _serving(port), "embedded", "single", ())
    rows, remarks = beside.measure(tmp_path, asked, rounds=1, requests=500)
    names = [row.name for row in rows]
    assert names == ["Skybridge", "a bare server", "the floor: bare ASGI, stores nothing"]
    ours, peer, _ = rows
    assert peer.costs[0] > 0, "the server below the shell is counted"
    assert peer.rates[0] > 0
    assert float(peer.memory.partition("/")[0]) > 20
    assert [ours.cells()[3], peer.cells()[3]] == ["", f"{peer.costs[0] / ours.costs[0]:.2f}"]
    assert "sh -c" in remarks[0]
    assert not _module("lab").listens(port)


def test_a_peer_that_ends_is_told_with_its_own_words(tmp_path: Path):
    (port,) = free_ports(1)
    peer = _module("beside").Peer(
        f"http://127.0.0.1:{port}/", ["sh", "-c", "echo no jar; exit 3"], tmp_path
    )
    with pytest.raises(RuntimeError, match="ended with 3; the peer said: no jar"):
        peer.start()


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:1/", "http://example.com:80/", "http://127.0.0.1/"]
)
def test_a_peer_is_on_a_port_of_this_machine(url: str, tmp_path: Path):
    with pytest.raises(ValueError, match="write http"):
        _module("beside").Peer(url, ["true"], tmp_path)


def test_a_port_that_is_taken_is_no_peer(tmp_path: Path):
    """Its answers would be another server's."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        peer = _module("beside").Peer(f"http://127.0.0.1:{port}/", ["true"], tmp_path)
        with pytest.raises(RuntimeError, match="is taken"):
            peer.start()

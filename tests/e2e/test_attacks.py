"""Bounds met from outside, on a running service: what a peer without any token can make it hold (rule 8)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from configuration import configuration
from forked import SKYBRIDGE
from service_process import ServiceProcess
from waiting import wait_until

MB = 1_000_000
ENDLESS = 40 * 2**20  # bytes
WITHIN = 120.0  # seconds


class Attacked(ServiceProcess):
    def __init__(self, folder: Path, *, head: str = "60s", connections: int = 1000) -> None:
        settings = configuration(
            folder,
            server={"admin": {"token": "a-token-of-some-length"}},
            timeouts={"request_head": head},
            limits={"connections": connections},
        )
        super().__init__(settings, folder)

    def grown(self, before: int) -> int:
        """Resident bytes since ``before``, told for docs/operations.md."""
        more = self.resident() - before
        print(f"resident memory: {more / MB:+.1f} MB")
        return more


@contextlib.contextmanager
def attacked(folder: Path, **settings: object) -> Iterator[Attacked]:
    service = Attacked(folder, **settings)  # type: ignore[arg-type]
    service.start()
    try:
        yield service
    finally:
        service.stop()


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=WITHIN)


def _answered(peer: socket.socket) -> bytes:
    """The status of what the peer says before it closes."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while piece := peer.recv(65536):
            said += piece
    return said[9:12]


@pytest.mark.parametrize("listener", ["admin", "events"])
def test_a_head_without_end_is_refused_and_memory_stays(tmp_path: Path, listener: str) -> None:
    """40 MiB in grew the admin listener by 50 MB, and each further byte cost 21 ms."""
    with attacked(tmp_path) as service:
        before = service.resident()
        with _connect(getattr(service, f"{listener}_port")) as peer:
            peer.sendall(b"GET /v1/topics HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ")
            with contextlib.suppress(ConnectionError):
                for _ in range(ENDLESS // 65536):
                    peer.sendall(b"v" * 65536)
            assert service.grown(before) < 10 * MB
            assert _answered(peer) in {b"431", b""}  # nothing, where it was reset while sending
        assert service.answers("/healthz") == 200


@pytest.mark.parametrize("listener", ["admin", "events"])
def test_four_hundred_unfinished_heads_stay_within_their_bound(
    tmp_path: Path, listener: str
) -> None:
    """They grew the process by 92 MB."""
    head = b"GET / HTTP/1.1\r\nhost: x\r\n" + b"".join(
        b"x-%d: %b\r\n" % (number, b"v" * 1000) for number in range(208)
    )
    with attacked(tmp_path) as service, contextlib.ExitStack() as peers:
        before = service.resident()
        for _ in range(400):
            peer = peers.enter_context(_connect(getattr(service, f"{listener}_port")))
            with contextlib.suppress(ConnectionError):
                peer.sendall(head)
        assert service.answers("/healthz") == 200  # it has read what came before
        assert service.grown(before) < 45 * MB


def test_half_a_head_ends_on_the_admin_listener_too(tmp_path: Path) -> None:
    with attacked(tmp_path, head="500ms") as service, _connect(service.admin_port) as peer:
        peer.sendall(b"GET /healthz HT")
        assert _answered(peer) == b"408"


def test_connections_of_the_admin_listener_are_bounded(tmp_path: Path) -> None:
    with attacked(tmp_path, connections=5) as service:
        with contextlib.ExitStack() as peers:
            for _ in range(5):
                peer = peers.enter_context(_connect(service.admin_port))
                peer.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                assert peer.recv(12) == b"HTTP/1.1 200"
            with _connect(service.admin_port) as one_more:
                assert _answered(one_more) == b"503"
        wait_until(lambda: service.answers("/healthz") == 200, "a free place", WITHIN)


def test_a_body_beyond_the_bound_is_refused_by_the_admin_listener(tmp_path: Path) -> None:
    """Behind the token the application reads all of it."""
    with attacked(tmp_path) as service, _connect(service.admin_port) as peer:
        peer.sendall(
            b"POST /v1/subscriptions HTTP/1.1\r\nhost: x\r\ncontent-length: 5000000\r\n"
            b"authorization: Bearer a-token-of-some-length\r\n\r\n"
        )
        assert _answered(peer) == b"413"


FEW = 'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$0" "$@"'


def _idle(service: Attacked, peers: contextlib.ExitStack) -> None:
    """Open more connections than a process with 1,024 descriptors can hold, and send nothing."""
    for _ in range(1_200):
        peers.enter_context(_connect(service.events_port))


def _posted(service: Attacked) -> int:
    """The status; 503 also where the connection is only closed, as it is behind many other refused ones."""
    try:
        return service.send("1", b'"a"')[0]
    except ConnectionError:
        return 503


@pytest.mark.parametrize("hard", [1_024, 20_000])
def test_connections_that_say_nothing_leave_descriptors_for_the_probes(
    tmp_path: Path, hard: int
) -> None:
    """With the soft limit of a systemd unit, 1,200 of them made /healthz wait without end. Where the hard limit
    allows it, all of them are held, and events are still taken."""
    service = Attacked(tmp_path, connections=10_000)
    service.program = ["/bin/bash", "-c", FEW.format(soft=1_024, hard=hard), SKYBRIDGE]
    service.start()
    try:
        with contextlib.ExitStack() as peers:
            _idle(service, peers)
            assert service.answers("/healthz") == 200
            assert _posted(service) == (503 if hard == 1_024 else 202)
        wait_until(lambda: _posted(service) == 202, "a free place", WITHIN)
        log = service.log.read_text()
        assert ("instead of limits.connections" in log) == (hard == 1_024)
        assert "Too many open files" not in log
        assert "socket.accept" not in log
    finally:
        service.stop()

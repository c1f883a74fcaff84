"""TLS of the listener, and certificates that change while it runs (reliability S15)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

import msgspec
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from app.errors import SetupError
from app.gateway.server import EventsServer
from app.gateway.tls import Tls
from app.telemetry import Counters
from certificate_pairs import replace
from listening import HeldPublisher, ImmediatePublisher, listening
from raw_http import PATIENCE, PeerClosed, RawConnection, event, request
from waiting import until


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


def issue(authority: trustme.CA, folder: Path) -> None:
    """A new certificate and key, over those that are there."""
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "cert.pem").write_bytes(b"".join(c.bytes() for c in certificate.cert_chain_pems))


def settings(folder: Path, **more: object) -> Tls:
    return Tls(certificate=folder / "cert.pem", key=folder / "key.pem", check_every=0.02, **more)


async def test_events_are_taken_over_tls_in_order(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    issue(authority, tmp_path)
    held = HeldPublisher()
    async with (
        listening(held, tls=settings(tmp_path)) as server,
        await RawConnection.open(server.port, trusting) as peer,
    ):
        await peer.send(event(1), request("/x", method="GET", length=False), event(2))
        await held.holds(2)
        held.release(2, 1)
        assert [answer.status for answer in await peer.answers(3)] == [200, 404, 200]


async def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_live_on(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    """Certificates are renewed by others, at any moment; nobody restarts a bridge for it."""
    issue(authority, tmp_path)
    async with listening(ImmediatePublisher(), tls=settings(tmp_path)) as server:
        old = await RawConnection.open(server.port, trusting)
        before = serial(old)
        issue(authority, tmp_path)

        await until_served_anew(server.port, trusting, before)

        await old.send(event(1))
        assert (await old.answer()).status == 202
        await old.close()


async def test_a_broken_certificate_leaves_the_old_one_in_force(
    tmp_path: Path,
    authority: trustme.CA,
    trusting: ssl.SSLContext,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Half-written files must not take the listener down; the next good pair is taken."""
    issue(authority, tmp_path)
    async with listening(ImmediatePublisher(), tls=settings(tmp_path)) as server:
        async with await RawConnection.open(server.port, trusting) as peer:
            before = serial(peer)
        (tmp_path / "cert.pem").write_text("half a")
        await until(lambda: "the old ones stay" in caplog.text)
        async with await RawConnection.open(server.port, trusting) as peer:
            assert serial(peer) == before
        issue(authority, tmp_path)
        await until_served_anew(server.port, trusting, before)


async def test_a_client_without_a_certificate_is_refused_where_one_is_asked_for(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    issue(authority, tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = settings(tmp_path, client_ca=tmp_path / "ca.pem")
    publisher = ImmediatePublisher()
    async with listening(publisher, tls=tls) as server:
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            async with await RawConnection.open(server.port, trusting) as peer:
                await peer.send(event(1))
                await peer.reader.readexactly(1)
        authority.issue_cert("client@example.com").configure_cert(trusting)
        async with await RawConnection.open(server.port, trusting) as peer:
            await peer.send(event(2))
            assert (await peer.answer()).status == 202
    assert publisher.ids == ["2"]


async def test_other_authorities_of_clients_count_for_new_connections(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    """Whom the old authority let in is kept out, and the other way round, without a restart."""
    issue(authority, tmp_path)
    other = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("client@example.com").configure_cert(trusting)
    others = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(others)
    other.issue_cert("client@example.com").configure_cert(others)
    tls = settings(tmp_path, client_ca=tmp_path / "ca.pem")
    async with listening(ImmediatePublisher(), tls=tls) as server:
        assert await is_let_in(server.port, trusting)
        assert not await is_let_in(server.port, others)
        other.cert_pem.write_to_path(tmp_path / "ca.pem")
        while not await is_let_in(server.port, others):  # pytest's own time-out is the bound
            pass
        assert not await is_let_in(server.port, trusting)


def demand(server: EventsServer, demands: bool) -> None:
    """As a reload does."""
    policy = server.resource.policy
    server.apply(msgspec.structs.replace(policy, demands_client=demands))


async def test_a_reload_makes_client_certificates_optional_and_mandatory_again(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    """For new connections; also behind files that were loaded meanwhile. One of another authority is never let
    in, and a connection that is open stays."""
    issue(authority, tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = settings(tmp_path, client_ca=tmp_path / "ca.pem")
    known, foreign = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    for client, signer in ((known, authority), (foreign, trustme.CA())):
        authority.configure_trust(client)
        signer.issue_cert("client@example.com").configure_cert(client)

    async def let_in(port: int) -> list[bool]:
        return [await is_let_in(port, client) for client in (trusting, known, foreign)]

    async with listening(ImmediatePublisher(), tls=tls) as server:
        assert await let_in(server.port) == [False, True, False]
        demand(server, False)
        assert await let_in(server.port) == [True, True, False]
        async with await RawConnection.open(server.port, trusting) as peer:
            before = serial(peer)
            issue(authority, tmp_path)
            await until_served_anew(server.port, trusting, before)
            assert await let_in(server.port) == [True, True, False]
            demand(server, True)
            assert await let_in(server.port) == [False, True, False]
            await peer.send(event(1))
            assert (await peer.answer()).status == 202
        demand(server, False)
        assert await let_in(server.port) == [True, True, False]


async def is_let_in(port: int, client: ssl.SSLContext) -> bool:
    try:
        async with await RawConnection.open(port, client) as peer:
            await peer.send(event(1))
            return (await peer.answer()).status == 202
    except (PeerClosed, ssl.SSLError, ConnectionError, EOFError):
        return False


async def test_old_versions_of_tls_are_refused(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    """S15: nothing below TLS 1.2."""
    issue(authority, tmp_path)
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        trusting.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        trusting.maximum_version = ssl.TLSVersion.TLSv1_1
    async with listening(ImmediatePublisher(), tls=settings(tmp_path)) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await RawConnection.open(server.port, trusting)


async def test_a_certificate_that_does_not_load_stops_the_start(tmp_path: Path) -> None:
    server = EventsServer(ImmediatePublisher(), Counters(), port=0, tls=settings(tmp_path))
    with pytest.raises(SetupError, match=r"server\.events\.tls"):
        await server.start()


async def test_authorities_that_do_not_load_stop_the_start(
    tmp_path: Path, authority: trustme.CA
) -> None:
    issue(authority, tmp_path)
    (tmp_path / "ca.pem").write_text("no certificate")
    tls = settings(tmp_path, client_ca=tmp_path / "ca.pem")
    server = EventsServer(ImmediatePublisher(), Counters(), port=0, tls=tls)
    with pytest.raises(SetupError, match="client_ca"):
        await server.start()


async def test_handshakes_are_bounded_in_number_and_in_time(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    """A connection that says nothing stood for 60 s, beside ``limits.connections``."""
    issue(authority, tmp_path)

    bounds = {"connections": 2, "handshake_timeout": 1.0}
    async with listening(ImmediatePublisher(), tls=settings(tmp_path), **bounds) as server:
        silent = [await RawConnection.open(server.port) for _ in range(2)]
        await until(lambda: server._handshakes.under_way == 2)
        third = await RawConnection.open(server.port)
        assert await third.closed() == b""
        assert [await peer.closed() for peer in silent] == [b"", b""]
        for peer in (*silent, third):
            await peer.close()
        assert server._handshakes.under_way == 0
        async with await RawConnection.open(server.port, trusting) as peer:
            await peer.send(event(1))
            assert (await peer.answer()).status == 202


async def test_a_request_right_behind_the_handshake_is_answered(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    """It arrives in the same packet as the end of the handshake, before the connection is handed over."""
    issue(authority, tmp_path)
    async with listening(ImmediatePublisher(), tls=settings(tmp_path)) as server:
        answers = [
            await asyncio.to_thread(_at_once, server.port, trusting, event(n)) for n in range(20)
        ]
    assert [answer[:12] for answer in answers] == [b"HTTP/1.1 202"] * 20


def _at_once(port: int, trusting: ssl.SSLContext, data: bytes) -> bytes:
    """The client's last words of the handshake and ``data`` leave in one write."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        client.write(data)
        connection.sendall(outgoing.read())
        while True:
            try:
                return client.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(connection.recv(65536))


def serial(peer: RawConnection) -> str:
    return str(peer.writer.get_extra_info("peercert")["serialNumber"])


async def until_served_anew(port: int, trusting: ssl.SSLContext, before: str) -> None:
    """Connect until another certificate is shown: pytest's own time-out is the bound."""
    shown = before
    while shown == before:
        async with await RawConnection.open(port, trusting) as peer:
            shown = serial(peer)


async def test_a_key_with_a_pass_phrase_is_refused_and_nobody_is_asked_for_it(
    tmp_path: Path, authority: trustme.CA
) -> None:
    """OpenSSL would ask on the terminal: at start, and on the event loop when the key is renewed."""
    issue(authority, tmp_path)
    key = tmp_path / "key.pem"
    key.write_bytes(encrypted(key.read_bytes()))
    server = EventsServer(ImmediatePublisher(), Counters(), port=0, tls=settings(tmp_path))
    with pytest.raises(
        SetupError, match=rf"server\.events\.tls: key {key} is encrypted.*pass phrase"
    ):
        await server.start()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_no_session_outlives_the_authority_that_let_its_client_in(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext, version: ssl.TLSVersion
) -> None:
    """A resumed session shows no certificate: it would have the old one's name for ever."""
    issue(authority, tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("client@example.com").configure_cert(trusting)
    trusting.maximum_version = version
    tls = settings(tmp_path, client_ca=tmp_path / "ca.pem")

    def status(port: int, session: ssl.SSLSession | None = None) -> tuple[bytes, ssl.SSLSession]:
        plain = socket.create_connection(("127.0.0.1", port), 30)
        with trusting.wrap_socket(plain, server_hostname="localhost", session=session) as peer:
            peer.sendall(event(1))
            answer = peer.recv(12)
            if not answer:
                raise ConnectionError
            return answer, peer.session

    async with listening(ImmediatePublisher(), tls=tls) as server:
        answer, session = await asyncio.to_thread(status, server.port)
        assert answer == b"HTTP/1.1 202"
        assert (await asyncio.to_thread(status, server.port, session))[0] == answer
        trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")

        async def is_refused(session: ssl.SSLSession | None) -> bool:
            try:
                await asyncio.to_thread(status, server.port, session)
            except OSError:
                return True
            return False

        while not await is_refused(None):
            await asyncio.sleep(0.02)
        assert await is_refused(session)


def resumed(
    port: int, client: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[bool, bool, ssl.SSLSession | None]:
    """Send an event with a session. Return whether it was taken, whether the server resumed, and the session now."""
    plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
    try:
        with client.wrap_socket(plain, server_hostname="localhost", session=session) as peer:
            peer.sendall(event(1))
            taken = peer.recv(12) == b"HTTP/1.1 202"
            found = taken, bool(peer.session_reused), peer.session
            with contextlib.suppress(OSError):
                peer.unwrap()  # a server forgets the session of a connection that breaks off
            return found
    except OSError:
        return False, False, None


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("tickets", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_without_a_certificate_is_not_resumed_where_one_is_demanded(
    tmp_path: Path,
    authority: trustme.CA,
    trusting: ssl.SSLContext,
    version: ssl.TLSVersion,
    tickets: bool,
) -> None:
    """A reload changed the demand on the context in use, whose sessions stayed good: a client that had one was let in
    without a certificate, with a ticket or by the session's id."""
    issue(authority, tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trusting.maximum_version = version
    if not tickets:
        trusting.options |= ssl.OP_NO_TICKET
    tls = settings(tmp_path, client_ca=tmp_path / "ca.pem", demands_client=False)
    async with listening(ImmediatePublisher(), tls=tls) as server:

        async def taken(session: ssl.SSLSession | None) -> bool:
            return (await asyncio.to_thread(resumed, server.port, trusting, session))[0]

        _, _, session = await asyncio.to_thread(resumed, server.port, trusting)
        assert (await asyncio.to_thread(resumed, server.port, trusting, session))[1]
        for _ in range(2):
            demand(server, True)
            assert not await taken(session)
            assert not await taken(None)
            demand(server, False)
            assert await taken(session)


async def test_the_demand_changes_also_while_the_files_cannot_be_used(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    issue(authority, tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = settings(tmp_path, client_ca=tmp_path / "ca.pem", demands_client=False)
    async with listening(ImmediatePublisher(), tls=tls) as server:
        for name in ("cert.pem", "key.pem", "ca.pem"):
            (tmp_path / name).unlink()
        assert await is_let_in(server.port, trusting)
        demand(server, True)
        assert not await is_let_in(server.port, trusting)


@pytest.mark.parametrize("damage", ["encrypted", "mixed", "gone", "cut", "authorities"])
async def test_files_that_cannot_be_used_leave_the_old_ones_in_use_and_the_log_says_why(
    tmp_path: Path,
    authority: trustme.CA,
    trusting: ssl.SSLContext,
    damage: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Said once for each state of the files, with setting, file and cure."""
    issue(authority, tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = settings(tmp_path, client_ca=tmp_path / "ca.pem", demands_client=False)
    key = (tmp_path / "key.pem").read_bytes()
    other = authority.issue_cert("localhost").private_key_pem.bytes()
    file, content, words = {
        "encrypted": ("key.pem", encrypted(key), "is encrypted"),
        "mixed": ("key.pem", other, "do not match"),
        "gone": ("cert.pem", None, "does not exist"),
        "cut": ("cert.pem", (tmp_path / "cert.pem").read_bytes()[:200], "cannot be read"),
        "authorities": ("ca.pem", b"", "is empty"),
    }[damage]
    async with listening(ImmediatePublisher(), tls=tls) as server:
        async with await RawConnection.open(server.port, trusting) as peer:
            before = serial(peer)
        if content is None:
            (tmp_path / file).unlink()
        else:
            replace(tmp_path / file, content)
        await until(lambda: words in caplog.text)
        async with await RawConnection.open(server.port, trusting) as peer:
            assert serial(peer) == before
        (said,) = [each.getMessage() for each in caplog.records if words in each.getMessage()]
        assert "the old ones stay" in said
        for part in ("server.events.tls", str(tmp_path / file), "Cure"):
            assert part in said
        issue(authority, tmp_path)
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        await until_served_anew(server.port, trusting, before)
    assert "pass phrase:" not in "".join(capfd.readouterr())


def encrypted(key: bytes) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


async def test_two_listeners_share_their_files_and_no_session(
    tmp_path: Path, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    """The session of one that demands nothing is of no use at one that does."""
    issue(authority, tmp_path)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = settings(tmp_path, client_ca=tmp_path / "ca.pem")
    optional = msgspec.structs.replace(tls, demands_client=False)
    async with (
        listening(ImmediatePublisher(), tls=optional) as one,
        listening(ImmediatePublisher(), tls=tls) as other,
    ):
        _, _, session = await asyncio.to_thread(resumed, one.port, trusting)
        assert session is not None
        assert not (await asyncio.to_thread(resumed, other.port, trusting, session))[0]

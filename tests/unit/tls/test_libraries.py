"""Libraries that read the files themselves, or keep the context they were given: they get what was tried, and ask nobody."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
import trustme
from aiokafka.conn import create_conn
from opentelemetry.sdk.trace import TracerProvider
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from app.brokers.kafka.driver import KafkaDriver
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.pulsar.admin import PulsarAdmin
from app.brokers.pulsar.connection import PulsarConnection
from app.brokers.pulsar.driver import PulsarDriver
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.rabbitmq.aiormq_adapter import URL, Transport
from app.brokers.rabbitmq.driver import RabbitDriver
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.security import ClientTls
from app.errors import SetupError
from app.spark.pulsar import reading
from app.spark.pulsar.options import Options
from app.store.postgresql import engine_of
from app.telemetry.otlp import exporter_of
from certificate_pairs import CertificatePair


class House:
    """Files of a client, and a server that notes which certificate each connection shows."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.pair = CertificatePair(folder, self.authority, "client")
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.port = 0
        self.serials: asyncio.Queue[str] = asyncio.Queue()

    @property
    def tls(self) -> ClientTls:
        return ClientTls(ca=self.ca, cert=self.pair.cert, key=self.pair.key)

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
        self.authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    async def note(self, writer: asyncio.StreamWriter) -> None:
        self.serials.put_nowait(str(writer.get_extra_info("peercert")["serialNumber"]))

    async def shown(self, connect: Callable[[], Awaitable[object]]) -> str:
        """Connect, and return the serial number that the server saw. The connection itself fails: nothing answers."""
        while not self.serials.empty():
            self.serials.get_nowait()
        connecting = asyncio.ensure_future(connect())
        try:
            async with asyncio.timeout(20):
                return await self.serials.get()
        finally:
            connecting.cancel()
            with suppress(BaseException):
                await connecting


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path)

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await house.note(writer)
        writer.transport.abort()

    async with listening(house, serve, house.context()):
        yield house


@asynccontextmanager
async def listening(
    house: House,
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    tls: ssl.SSLContext,
) -> AsyncIterator[None]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    house.port = server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        server.close()


async def follows(house: House, connect: Callable[[], Awaitable[object]]) -> None:
    """The old pair while half of a new one is there, and while the key is encrypted; then the new pair."""
    old = await house.shown(connect)
    other = house.pair.issue()
    house.pair.write_cert(other)
    assert await house.shown(connect) == old
    house.pair.write_key(other)
    house.pair.encrypt_key()
    assert await house.shown(connect) == old
    house.ca.write_text("")
    house.pair.renew()
    assert await house.shown(connect) == old
    house.authority.cert_pem.write_to_path(house.ca)
    new = house.pair.renew()
    assert await house.shown(connect) == new != old


@pytest.fixture(autouse=True)
def _silent(capfd: pytest.CaptureFixture[str]) -> object:
    yield
    assert "pass phrase:" not in "".join(capfd.readouterr())


async def test_clients_of_kafka_keep_their_context_and_follow_the_files(house: House) -> None:
    """One client lives for weeks, and connects again with the context that it began with."""
    settings = KafkaSettings(name="main", bootstrap_servers="127.0.0.1:1", tls=house.tls)
    options = settings.one_connection()
    await follows(house, lambda: create_conn("127.0.0.1", house.port, **options))


async def test_rabbitmq_follows_the_files(house: House) -> None:
    settings = RabbitSettings(name="main", tls=house.tls)
    settings.ssl_context()

    async def connect() -> None:
        transport = Transport(settings.ssl_context())
        reader, writer = await transport.create(URL(f"amqps://127.0.0.1:{house.port}"))
        try:
            await reader.read()
        finally:
            writer.transport.abort()

    await follows(house, connect)


async def test_the_administration_of_pulsar_follows_the_files(house: House) -> None:
    admin = PulsarAdmin(
        PulsarSettings(
            name="main",
            service_url="pulsar+ssl://127.0.0.1:1",
            admin_url=f"https://127.0.0.1:{house.port}",
            tls=house.tls,
        )
    )
    await follows(house, admin.probe)
    await admin.stop()


async def test_the_client_of_pulsar_reads_copies_that_were_tried(house: House) -> None:
    """It reads the files at each connection, on threads of its own, and would ask a terminal for a pass phrase."""
    settings = PulsarSettings(
        name="main",
        service_url=f"pulsar+ssl://127.0.0.1:{house.port}",
        admin_url="https://127.0.0.1:1",
        tls=house.tls,
        operation_timeout=1.0,
    )

    async def connect() -> None:
        connection = PulsarConnection(settings)
        try:
            await connection.probe("t")
        finally:
            await asyncio.shield(connection.close())

    await follows(house, connect)


async def test_a_client_of_pulsar_connects_again_with_the_copies_it_has(house: House) -> None:
    settings = PulsarSettings(
        name="main",
        service_url=f"pulsar+ssl://127.0.0.1:{house.port}",
        admin_url="https://127.0.0.1:1",
        tls=house.tls,
        operation_timeout=5.0,
    )
    connection = PulsarConnection(settings)
    old = await house.shown(lambda: connection.probe("t"))
    house.pair.renew()
    house.pair.encrypt_key()
    assert await house.shown(lambda: connection.probe("t")) == old
    await connection.close()


@pytest.mark.parametrize("damage", ["encrypted", "mixed"])
@pytest.mark.parametrize("broker", ["kafka", "rabbitmq", "pulsar"])
def test_drivers_refuse_a_pair_before_they_connect(
    tmp_path: Path, broker: str, damage: str
) -> None:
    """The setting, the file and the cure are named."""
    house = House(tmp_path)
    if damage == "encrypted":
        house.pair.encrypt_key()
    else:
        house.pair.write_cert(house.pair.issue())
    pulsar = {"service_url": "pulsar+ssl://127.0.0.1:1", "admin_url": "https://127.0.0.1:1"}
    made: dict[str, Callable[[], object]] = {
        "kafka": lambda: KafkaDriver(
            KafkaSettings(name="main", bootstrap_servers="127.0.0.1:1", tls=house.tls)
        ),
        "rabbitmq": lambda: RabbitDriver(RabbitSettings(name="main", tls=house.tls)),
        "pulsar": lambda: PulsarDriver(PulsarSettings(name="main", tls=house.tls, **pulsar)),
    }
    with pytest.raises(SetupError) as refused:
        made[broker]()
    said = str(refused.value)
    assert said.startswith(f"brokers.main.security.tls: key {house.pair.key} ")
    assert ("is encrypted" if damage == "encrypted" else "do not match") in said


def test_the_reader_of_an_archive_refuses_an_encrypted_key(tmp_path: Path) -> None:
    """It runs where there may be no terminal, and would wait for one that there is."""
    house = House(tmp_path)
    house.pair.encrypt_key()
    options = Options(
        name="main",
        service_url="pulsar+ssl://127.0.0.1:1",
        admin_url="https://127.0.0.1:1",
        topics="t",
        tls_ca=str(house.ca),
        tls_certificate=str(house.pair.cert),
        tls_key=str(house.pair.key),
    )
    with pytest.raises(SetupError, match="is encrypted"):
        reading._copies(options)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[House]:
    """As much of PostgreSQL as comes before its own handshake: it agrees to TLS, and hangs up."""
    house, loop = House(tmp_path), asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    house.port = listener.getsockname()[1]

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            with plain, suppress(OSError):
                assert struct.unpack("!ii", plain.recv(8))[1] == 80877103  # SSLRequest
                plain.sendall(b"S")
                with house.context().wrap_socket(plain, server_side=True) as peer:
                    shown = str(peer.getpeercert()["serialNumber"])
                    loop.call_soon_threadsafe(house.serials.put_nowait, shown)

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    yield house
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    await asyncio.to_thread(serving.join)


def connecting(engine: Engine) -> Callable[[], Awaitable[None]]:
    """One connection after the other, as the store's thread makes them."""
    alone = threading.Lock()

    def begin() -> None:
        with alone, suppress(DBAPIError), engine.connect():
            pass

    return partial(asyncio.to_thread, begin)


def dsn_of(house: House, more: str = "") -> str:
    files = f"sslcert={house.pair.cert}&sslkey={house.pair.key}&sslrootcert={house.ca}"
    return f"postgresql://u@127.0.0.1:{house.port}/d?sslmode=verify-full&gssencmode=disable&{files}{more}"


async def test_the_store_follows_the_files_of_its_dsn(database: House) -> None:
    """A key of libpq must be a file of its user alone, and is one."""
    database.pair.key.chmod(0o600)
    engine = engine_of(dsn_of(database), 10.0)

    await follows(database, connecting(engine))


async def test_the_store_opens_a_key_whose_pass_phrase_is_in_the_dsn(database: House) -> None:
    database.pair.encrypt_key()
    engine = engine_of(dsn_of(database, "&sslpassword=secret"), 10.0)

    assert await database.shown(connecting(engine))


def test_the_store_refuses_an_encrypted_key(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.pair.encrypt_key()
    with pytest.raises(SetupError, match=rf"store\.dsn: sslkey {house.pair.key} is encrypted"):
        engine_of(dsn_of(house), 10.0)


@pytest.mark.parametrize("one_file", [False, True])
async def test_spans_are_exported_with_the_pair_that_was_tried(
    house: House, monkeypatch: pytest.MonkeyPatch, one_file: bool
) -> None:
    """requests asks for the pass phrase of a key that is in the file of the certificate."""
    if one_file:
        house.pair.cert.write_bytes(house.pair.cert.read_bytes() + house.pair.key.read_bytes())
    else:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(house.pair.key))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(house.pair.cert))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(house.ca))
    exporter = exporter_of(f"https://127.0.0.1:{house.port}/v1/traces", {}, 0.5)
    span = TracerProvider().get_tracer("t").start_span("s")
    span.end()

    def connect() -> Awaitable[object]:
        return asyncio.to_thread(exporter.export, [span])

    old = await house.shown(connect)
    house.pair.encrypt_key()
    if one_file:
        house.pair.cert.write_bytes(house.pair.cert.read_bytes() + house.pair.key.read_bytes())
    assert await house.shown(connect) == old
    exporter.shutdown()


def test_spans_are_not_exported_with_an_encrypted_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    house.pair.encrypt_key()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(house.pair.key))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(house.pair.cert))
    with pytest.raises(
        SetupError, match=r"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: key .* encrypted"
    ):
        exporter_of("https://127.0.0.1:1/v1/traces", {}, 0.5)


async def test_a_client_of_httpx_follows_the_files(house: House) -> None:
    """It sets the protocols of each connection on the context that it was given: not on one that is in use."""
    context = house.tls.context("main")

    async def connect() -> None:
        async with httpx.AsyncClient(verify=context, timeout=120) as client:
            await client.get(f"https://127.0.0.1:{house.port}/")

    await follows(house, connect)

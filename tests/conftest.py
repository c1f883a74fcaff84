"""Fixtures of the whole test run: real servers, started once and shared by every folder."""

from __future__ import annotations

import functools
import gc
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import pytest
from hypothesis import HealthCheck, settings

from forked import FORKER
from kafka_install import Missing
from kafka_server import KafkaServer, running
from postgres_server import PostgresServer
from postgres_server import running as postgres_running
from pulsar_server import PulsarServer
from pulsar_server import running as pulsar_running
from rabbitmq_server import RabbitServer
from rabbitmq_server import running as rabbitmq_running
from server_process import ServerProcess
from shared_servers import RunOfTests, shared_server
from skipping import skip_or_fail
from spark_session import LEFT_OPEN, running_spark, spark_settings
from streams import UNITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Assertions that stand in support modules are to tell what differs, whoever imports them first.
pytest.register_assert_rewrite(
    *("corpus", "corpus_documents", "corpus_http", "corpus_records"),
    *("contract_groups", "contract_positions", "contract_records", "contract_running"),
    *("contract_tools", "store_contract", "store_contract_tables", "store_contract_messages"),
)


# Tests start hundreds of services: without bytecode each compiles all modules anew, three times the work.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@functools.cache
def _authorities(trust_env: bool) -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=trust_env)


def _ssl_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    """Each client of httpx reads the certificates of all authorities anew, 50 ms of CPU, also where it speaks to
    loopback without TLS: a test that asks until something is so spends its time with that.
    """
    if verify is True and cert is None:
        return _authorities(trust_env)
    return httpx.create_ssl_context(verify=verify, cert=cert, trust_env=trust_env)


httpx._transports.default.create_ssl_context = _ssl_context


# A property says nothing about time, and a busy machine takes its time over an example. Those of
# tests/properties say themselves how many they want.
_profile = settings.get_current_profile_name()
if _profile in {"default", "ci"}:  # and not the one of `make properties`
    settings.register_profile(
        "short", settings.get_profile(_profile), max_examples=60, deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    settings.load_profile("short")


BRIEF = "tests/unit/"

Server = TypeVar("Server", bound=ServerProcess)


@contextmanager
def throwaway(server: Server) -> Iterator[Server]:
    """Started, and stopped for good. What is missing skips on a laptop and fails where CI=true
    promises that it is there.
    """
    try:
        server.start()
    except Missing as missing:
        skip_or_fail(missing)
    try:
        yield server
    finally:
        server.stop()


def _shared(kind: str) -> list[str]:
    try:
        return shared_server(kind)
    except Missing as missing:
        skip_or_fail(missing)


@pytest.fixture(scope="session")
def kafka() -> str:
    """Bootstrap servers of a real Kafka that the whole run shares: make topics of your own.

    The one named by ``SKYBRIDGE_TEST_KAFKA``, or the one that ``make servers`` left running, or one
    of the run's own that goes when it ends.
    """
    return os.environ.get("SKYBRIDGE_TEST_KAFKA") or running() or _shared("kafka")[0]


@pytest.fixture(scope="module")
def _throwaway_kafka() -> Iterator[KafkaServer]:
    """Of a module: one that waits to the end of the run for nothing takes 3 % of a core."""
    with throwaway(KafkaServer()) as server:
        yield server


@pytest.fixture
def own_kafka(_throwaway_kafka: KafkaServer) -> KafkaServer:
    """A real Kafka to be killed, paused and restarted: up when a test begins, and for it alone."""
    _throwaway_kafka.revive()
    return _throwaway_kafka


@pytest.fixture(scope="session")
def rabbitmq() -> str:
    """Address of a real RabbitMQ that the whole run shares, as ``kafka`` is: make topics of your own."""
    named = os.environ.get("SKYBRIDGE_TEST_RABBITMQ")
    return named or rabbitmq_running() or _shared("rabbitmq")[0]


@pytest.fixture(scope="session")
def _throwaway_rabbitmq() -> Iterator[RabbitServer]:
    with throwaway(RabbitServer()) as server:
        yield server


@pytest.fixture
def own_rabbitmq(_throwaway_rabbitmq: RabbitServer) -> RabbitServer:
    """A real RabbitMQ to be killed, paused and restarted: up when a test begins, and for it alone."""
    _throwaway_rabbitmq.revive()
    return _throwaway_rabbitmq


@pytest.fixture(scope="session")
def pulsar() -> tuple[str, str]:
    """Service and admin address of a real Pulsar that the whole run shares, as ``kafka`` is."""
    if named := os.environ.get("SKYBRIDGE_TEST_PULSAR"):  # both, with a blank between them
        service_url, _, admin_url = named.partition(" ")
        return service_url, admin_url
    if addresses := pulsar_running():
        return addresses
    service_url, admin_url = _shared("pulsar")
    return service_url, admin_url


@pytest.fixture(scope="module")
def _throwaway_pulsar() -> Iterator[PulsarServer]:
    """Of a module, as ``_throwaway_kafka`` is."""
    with throwaway(
        PulsarServer(settings={"acknowledgmentAtBatchIndexLevelEnabled": "false"})
    ) as server:
        yield server


@pytest.fixture
def own_pulsar(_throwaway_pulsar: PulsarServer) -> PulsarServer:
    """A real Pulsar to be killed, paused and restarted: up when a test begins, and for it alone."""
    _throwaway_pulsar.revive()
    return _throwaway_pulsar


@pytest.fixture(scope="session")
def postgres() -> str:
    """DSN of a real PostgreSQL that the whole run shares: take a ``fresh_database`` of it."""
    return os.environ.get("SKYBRIDGE_TEST_POSTGRES") or postgres_running() or _shared("postgres")[0]


@pytest.fixture(scope="session")
def _throwaway_postgres() -> Iterator[PostgresServer]:
    with throwaway(PostgresServer()) as server:
        yield server


@pytest.fixture
def own_postgres(_throwaway_postgres: PostgresServer) -> PostgresServer:
    """A real PostgreSQL to be killed, paused and restarted: up when a test begins, and for it alone."""
    _throwaway_postgres.revive()
    return _throwaway_postgres


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small Spark that the whole run shares, with the jars of the pipeline: give catalogs, tables and
    queries names of your own.
    """
    try:
        settings = spark_settings(tmp_path_factory.mktemp("spark"))
    except Missing as missing:
        skip_or_fail(missing)
    with running_spark(settings) as session:
        yield session


def pytest_configure(config: pytest.Config) -> None:
    """The process that a person started has the servers; streams of it share them."""
    run = RunOfTests()
    config.add_cleanup(run.end)
    config.pluginmanager.register(_EndOfPulsar(run), "end-of-pulsar")


class _EndOfPulsar:
    """A plugin that stops Pulsar after the last test that uses it. An idle Pulsar takes a thirtieth of a core."""

    def __init__(self, run: RunOfTests) -> None:
        self._run = run
        self._process = os.getpid()
        self._left: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._left = {item.nodeid for item in session.items if _uses_pulsar(item)}

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note the end of a test. A stream does not know the tests of the others, so it stops nothing."""
        if nodeid in self._left and os.getpid() == self._process:
            self._left.remove(nodeid)
            if not self._left:
                self._run.stop("pulsar")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first and what takes moments last, in the order that chance gave it: else one stream
    ends minutes before the other. Warnings are errors; those that pyspark itself makes are not ours to mend.
    """
    for item in items:
        if _uses_spark(item):
            item.add_marker(pytest.mark.filterwarnings(LEFT_OPEN))
    items.sort(key=_order)


def _order(item: pytest.Item) -> tuple[bool, ...]:
    """Return the place of a test in the run: the folders that are one unit are first, then Pulsar, and moments are
    last."""
    units = (not item.nodeid.startswith(unit) for unit in UNITS)
    return item.nodeid.startswith(BRIEF), *units, not _uses_pulsar(item)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that is collected is garbage: looking for it takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected stays to the end: the garbage collector need not look through half a million
    objects again at each turn, which is a second and more at every test of pyspark.

    Streams share the process that forks programs: its imports take seconds of processor time.
    """
    if session.config.getoption("streams", 0) and not session.config.option.collectonly:
        FORKER.begin()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """What pyspark left open is collected while the filter of its own test holds: else whichever test
    comes to the garbage collector next, of whatever it is, fails for it.
    """
    try:
        return (yield)
    finally:
        if _uses_spark(item):
            gc.collect()


def _uses_pulsar(item: pytest.Item) -> bool:
    return item.get_closest_marker("pulsar") is not None


def _uses_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())

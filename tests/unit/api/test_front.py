"""The admin listener answers probes and Prometheus by itself; its application is made for whoever asks more."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest

from admin_app import given_by
from app.api.access.callers import AccessToken, AdminAccess
from app.api.access.guard import TokenGuard
from app.api.asked.readiness import RoleReadiness
from app.api.front import Front

HEAVY = {
    "aio_pika", "aiokafka", "aiormq", "alembic", "apsw", "cramjam", "cryptography", "fastapi", "fastavro",
    "google", "httpx", "joserfc", "jsonschema_rs", "kio", "opentelemetry", "prometheus_client",
    "psycopg", "pulsar", "pyspark", "rich", "scramp", "starlette", "typer",
}  # fmt: skip


async def application(scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


class Service:
    async def readiness(self) -> dict[str, RoleReadiness]:
        return {"gateway": RoleReadiness(ready=True, causes=[])}


class Making:
    """Counts how often the application is made, and where."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.may_end = threading.Event()

    def __call__(self) -> Any:
        self.threads.append(threading.current_thread())
        self.may_end.wait(60)
        return application


@pytest.fixture
def making() -> Making:
    return Making()


def client(making: Making, allowed: AdminAccess | None = None) -> httpx.AsyncClient:
    app = TokenGuard(Front(given_by(Service()), making), allowed or AdminAccess())
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/readyz", "/readyz?role=gateway", "/healthz/", "/readyz/?role=gateway"],
)
async def test_a_probe_needs_no_application(making: Making, path: str) -> None:
    """Kubernetes asks every few seconds, and a gateway may never be asked anything else."""
    async with client(making) as asking:
        answer = await asking.get(path)
    assert answer.status_code == 200
    assert not making.threads


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/status"),
        ("HEAD", "/healthz"),
        ("POST", "/readyz"),
        ("GET", "/readyz?role=queen"),
        ("GET", "/readyz?roll=gateway"),
        ("GET", "/healthz?x=1"),
        ("GET", "/metrics?x=1"),
    ],
)
async def test_whatever_is_no_plain_probe_is_the_applications(
    making: Making, method: str, path: str
) -> None:
    """Also what is wrong with a request: one place says so."""
    making.may_end.set()
    async with client(making) as asking:
        assert (await asking.request(method, path)).status_code == 299


@pytest.mark.parametrize(
    ("path", "seen"), [("/v1/topics/", "/v1/topics"), ("/v1//", "/v1/"), ("/", "/"), ("/x", "/x")]
)
async def test_a_slash_at_the_end_of_a_path_is_the_same_resource(
    making: Making, path: str, seen: str
) -> None:
    """No redirect, which few clients follow with a body."""
    making.may_end.set()
    async with client(making) as asking:
        answer = await asking.post(path)
    assert (answer.status_code, answer.text) == (299, seen)


async def test_a_strangers_probe_may_end_in_a_slash(making: Making) -> None:
    allowed = AdminAccess([AccessToken("reader", ["secret"], frozenset({"read"}))])
    async with client(making, allowed) as asking:
        found = [(await asking.get(path)).status_code for path in ("/healthz/", "/readyz/", "/x/")]
    assert found == [200, 200, 401]


async def test_metrics_without_their_scope_are_refused_by_the_application(making: Making) -> None:
    """There the refusal is written into the audit."""
    making.may_end.set()
    allowed = AdminAccess([AccessToken("reader", ["secret"], frozenset({"read"}))])
    async with client(making, allowed) as asking:
        answer = await asking.get("/metrics", headers={"authorization": "Bearer secret"})
    assert answer.status_code == 299


async def test_it_is_made_once_in_a_thread_while_probes_are_answered(making: Making) -> None:
    """Making it takes a second of CPU: events and probes go on meanwhile."""
    async with client(making) as asking:
        waiting = [asyncio.create_task(asking.get(f"/v1/{n}")) for n in range(3)]
        while not making.threads:
            await asyncio.sleep(0)
        assert (await asking.get("/healthz")).text == "ok\n"
        assert not any(each.done() for each in waiting)
        making.may_end.set()
        answers = [await each for each in waiting]
    assert [each.text for each in answers] == ["/v1/0", "/v1/1", "/v1/2"]
    assert [each is threading.main_thread() for each in making.threads] == [False]


async def test_after_a_failure_it_is_made_again(making: Making) -> None:
    """A cause that has passed, a disk that was full, needs no restart."""
    failures = [OSError("no space left")]

    def once() -> Any:
        if failures:
            raise failures.pop()
        return making()

    making.may_end.set()
    app = TokenGuard(Front(given_by(Service()), once), AdminAccess())
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asking:
        assert [(await asking.get("/v1/0")).status_code for _ in range(3)] == [500, 299, 299]
    assert len(making.threads) == 1


async def test_whoever_leaves_while_it_is_made_leaves_it_to_the_others(making: Making) -> None:
    """A client that gives up must not have it made again."""
    async with client(making) as asking:
        leaving, staying = (asyncio.create_task(asking.get(f"/v1/{n}")) for n in range(2))
        while not making.threads:
            await asyncio.sleep(0)
        leaving.cancel()
        making.may_end.set()
        assert (await staying).status_code == 299
    assert len(making.threads) == 1


def test_a_start_on_sqlite_imports_no_dialect_of_another_database() -> None:
    """An option of an index is enough to import one."""
    code = "import sys, app.store; print([name for name in sys.modules if 'dialects.postgresql' in name])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_start_imports_no_client_and_no_application() -> None:
    """Each takes megabytes and tenths of a second: it is imported when a configuration or a request needs it."""
    code = (
        "import sys\nfrom app.cli import example_request, serving\nimport app.runtime.run\n"
        "print(*sorted({name.partition('.')[0] for name, module in sys.modules.items() if module}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(run.stdout.split())


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [("/healthz", "", 200), ("/v1/attempts", "", 401), ("/v1/attempts", "right", 299), ("/readyz", "", 200)],
)  # fmt: skip
async def test_no_cache_stores_an_answer_and_no_browser_guesses_its_type(
    making: Making, path: str, token: str, status: int
) -> None:
    """An answer may hold event data; a proxy or a browser's disk must not keep it."""
    making.may_end.set()
    allowed = AdminAccess([AccessToken("a", ["right"], frozenset({"read"}))])
    async with client(making, allowed) as asking:
        answer = await asking.get(
            path, headers={"authorization": f"Bearer {token}"} if token else {}
        )
    assert answer.status_code == status
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"

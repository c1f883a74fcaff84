"""The verbs as a user runs them: real processes, real sockets, real signals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cli import exits
from app.cli.example_request import example_command
from app.config.load.loader import load
from child_service import Child, run, running_command
from configuration import configuration, route, written
from sending import event_headers
from skipping import skip_or_fail
from waiting import until


def write(folder: Path, *, sink: str | None = None, not_ready: str = "0s", **more: Any) -> str:
    """A configuration file, with one subscription where ``sink`` is given; its name."""
    subscribed = {
        "id": "hook",
        "source": {"broker": "log", "topics": ["events"]},
        "start": "earliest",
        "sink": sink,
        **more,
    }
    settings = configuration(
        folder,
        routes=[route(name="everything")],
        subscriptions=[subscribed] if sink else [],
        timeouts={"not_ready": not_ready, "drain": None},
    )
    return str(written(settings, folder))


async def get(child: Child, path: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        return await client.get(f"{child.announced['admin']}{path}")


async def post(child: Child, type_: str) -> None:
    """One accepted event, without a process of its own."""
    headers = event_headers(type_, type=type_)
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        assert (await client.post(child.announced["events"], headers=headers)).status_code == 202


async def answered(child: Child, path: str, wanted: Any) -> Any:
    """Return the JSON answer of ``path`` once ``wanted(answer)`` is true."""

    async def found() -> Any:
        answer = (await get(child, path)).json()
        return answer if wanted(answer) else None

    return await until(found, f"the wanted answer of {path}", turn=0.05)


async def test_an_event_goes_from_send_to_receive(tmp_path: Path) -> None:
    """The whole product with three commands; the exact data arrives."""
    async with running_command(tmp_path, "receive", "--port", "0") as receiver:
        config = write(tmp_path, sink=f"{receiver.announced['listening']}/hook")
        async with running_command(tmp_path, "serve", "--config", config) as service:
            code, out, err = await run(
                tmp_path, "send", "--url", service.announced["events"], "-t", "com.example.hello",
                "-d", '{"price": 1.10}', "-k", "order-7", "--json",
            )  # fmt: skip
            assert code == exits.OK, err
            sent = json.loads(out)
            arrived = await receiver.line()
            assert await service.stop() == 0
        assert await receiver.stop() == 0
    assert sent["receipts"][0]["topic"] == "events"
    assert arrived["events"][0]["attributes"]["id"] == sent["id"]
    assert arrived["events"][0]["data_base64"] == "eyJwcmljZSI6IDEuMTB9"


async def test_receive_verifies_the_signature_of_a_service(tmp_path: Path) -> None:
    """The key of the file signs; a request without a signature is refused, and both are shown."""
    key = tmp_path / "billing.secret"
    assert (await run(tmp_path, "secret", "--out", str(key)))[0] == exits.OK
    words = ("receive", "--port", "0", "--secret-file", str(key))
    async with running_command(tmp_path, *words) as receiver:
        url = f"{receiver.announced['listening']}/hook"
        config = write(tmp_path, sink=url, signing={"secret": f"${{file:{key}}}"})
        async with running_command(tmp_path, "serve", "--config", config) as service:
            assert str(tmp_path / "log") in service.announced["paths"]
            await post(service, "com.example.signed")
            arrived = await receiver.line()
            assert arrived["status"] == 204
            assert arrived["signature"] == {"valid": True, "why": "signed by 1 of 1 keys"}
        async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
            answer = await client.post(url, headers=event_headers("unsigned"))
        assert answer.status_code == 401
        assert (await receiver.line())["signature"]["valid"] is False


async def test_what_was_accepted_before_sigterm_is_delivered_after_a_restart(
    tmp_path: Path,
) -> None:
    """Rule 11: finish or release, commit, exit; nothing acknowledged is lost."""
    config = write(tmp_path)
    async with running_command(tmp_path, "serve", "--config", config) as service:
        url = service.announced["events"]
        code, *_ = await run(
            tmp_path, "send", "--url", url, "-t", "t", "-n", "50", "-m", "batch", "--json"
        )
        assert code == exits.OK
        assert await service.stop() == 0
    async with running_command(tmp_path, "receive", "--port", "0") as receiver:
        config = write(tmp_path, sink=f"{receiver.announced['listening']}/")
        async with running_command(tmp_path, "serve", "--config", config) as service:
            ids = {(await receiver.line())["events"][0]["attributes"]["id"] for _ in range(50)}
            assert await service.stop() == 0
    assert len(ids) == 50


async def test_sigterm_turns_readiness_off_and_still_accepts_for_a_while(tmp_path: Path) -> None:
    """A load balancer needs time to notice; events that come meanwhile are taken (rule 11)."""
    config = write(tmp_path, not_ready="2s")
    async with running_command(tmp_path, "serve", "--config", config) as service:
        assert (await get(service, "/readyz")).status_code == 200
        service.signal(signal.SIGTERM)
        answer = await answered(service, "/readyz", lambda answer: not answer["ready"])
        assert answer["roles"]["gateway"]["causes"] == ["the service is stopping"]
        await post(service, "late")
        assert await service.ended() == 0


async def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """Whoever asks twice means it."""
    config = write(tmp_path, not_ready="300s")
    async with running_command(tmp_path, "serve", "--config", config) as service:
        service.signal(signal.SIGTERM)
        await answered(service, "/readyz", lambda answer: not answer["ready"])
        service.signal(signal.SIGTERM)
        async with asyncio.timeout(240):  # and not the 300 s of ``not_ready``
            assert await service.ended() == -signal.SIGTERM


async def test_retry_after_is_honoured_and_a_refused_type_becomes_a_dead_letter(
    tmp_path: Path,
) -> None:
    """receive misbehaves when told to; attempts and dead letters show what became of it."""
    words = ("receive", "--port", "0", "--fail-first", "1", "--retry-after", "1", "--status", "415")
    async with running_command(tmp_path, *words) as receiver:
        config = write(tmp_path, sink=f"{receiver.announced['listening']}/")
        async with running_command(tmp_path, "serve", "--config", config) as service:
            await post(service, "com.example.odd")
            assert (await receiver.line())["status"] == 503
            assert (await receiver.line())["status"] == 415
            found = await answered(
                service, "/v1/dead-letters", lambda answer: answer["dead_letters"]
            )
            (letter,) = found["dead_letters"]
            tried = await answered(
                service, "/v1/attempts", lambda answer: len(answer["attempts"]) == 2
            )
            second, first = tried["attempts"]
            assert await service.stop() == 0
    assert (first["status"], second["status"]) == (503, 415)
    assert second["started_ms"] - first["started_ms"] >= 1_000
    assert letter["status"] == 415
    assert letter["message"]["event"]["type"] == "com.example.odd"


async def test_tail_follows_a_running_service(tmp_path: Path) -> None:
    """An embedded log belongs to its service, so tail asks the service."""
    async with running_command(tmp_path, "serve", "--config", write(tmp_path)) as service:
        await post(service, "first")
        words = ("tail", "events", "--server", service.announced["admin"], "--from", "earliest")
        async with running_command(tmp_path, *words) as tailing:
            assert tailing.announced["event"]["type"] == "first"
            await post(service, "second")
            assert (await tailing.line())["event"]["type"] == "second"
            tailing.signal(signal.SIGINT)
            assert await tailing.ended() == 0
        assert await service.stop() == 0


async def test_json_that_is_so_by_its_grammar_alone_is_shown_as_it_came(tmp_path: Path) -> None:
    """Sent from a file, received, tailed, listed and found: a cut emoji, a number beyond a double."""
    data = rb'{"\ud83d":1,"cut":"\uD83D","n":1e400,"m":-0}'
    document = b'{"specversion":"1.0","id":"odd","source":"/s","type":"t","data":' + data + b"}"
    (tmp_path / "odd.json").write_bytes(document)
    async with running_command(tmp_path, "serve", "--config", write(tmp_path)) as service:
        code, out, err = await run(
            tmp_path, "send", "odd.json", "--url", service.announced["events"], "--json"
        )
        assert code == exits.OK, err
        admin = ("--server", service.announced["admin"])
        words = ("tail", "events", *admin, "--from", "earliest", "--no-follow")
        for options in ((), ("--json",), ("--raw",), ("--raw", "--json")):
            code, out, err = await run(tmp_path, *words, *options)
            assert code == exits.OK, err
            assert "odd" in out
            assert data.decode() in out or r"{\"\\ud83d" in out, "for a person too"
        code, out, err = await run(tmp_path, "explain", "odd.json", *admin)
        assert code == exits.OK, err
        answer = await get(service, "/v1/topics/log/events/records?raw=true")
        assert b'"data":' + data + b"}" in answer.content
        code, out, err = await run(tmp_path, "find", "odd", *admin, "--json")
        assert code == exits.OK, err
        assert await service.stop() == 0


async def test_tail_reads_the_log_itself_while_no_service_runs(tmp_path: Path) -> None:
    """With --config the broker is read directly."""
    config = write(tmp_path)
    async with running_command(tmp_path, "serve", "--config", config) as service:
        headers = event_headers("1", type="kept")
        async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
            headers["content-type"] = "application/json"
            await client.post(service.announced["events"], headers=headers, content=b"1.10")
        assert await service.stop() == 0
    code, out, err = await run(
        tmp_path, "tail", "events", "--config", config, "--from", "earliest", "--no-follow",
        "--json",
    )  # fmt: skip
    assert code == exits.OK, err
    assert json.loads(out)["event"]["type"] == "kept"
    assert '"data":1.10' in out


async def test_two_services_do_not_share_one_log(tmp_path: Path) -> None:
    """The second says what is wrong and what to do, and exits with 2."""
    config = write(tmp_path)
    async with running_command(tmp_path, "serve", "--config", config) as service:
        code, _, err = await run(tmp_path, "serve", "--config", config)
        assert await service.stop() == 0
    assert code == exits.SETUP
    assert f"stop process {service.process.pid}" in " ".join(err.split())
    assert "cure" in err
    assert "Traceback" not in err


async def test_a_refused_event_exits_1_and_lists_every_fault(tmp_path: Path) -> None:
    """One look shows all that is wrong with it."""
    async with running_command(tmp_path, "serve", "--config", write(tmp_path)) as service:
        code, _, err = await run(
            tmp_path, "send", "--url", service.announced["events"], "-t", "t",
            "--source", "a b", "-a", "Bad_Name=1",
        )  # fmt: skip
        assert await service.stop() == 0
    assert code == exits.FAILED
    assert "ce-source" in err
    assert "bad_name" in err.lower()


async def test_the_printed_curl_works_as_pasted(tmp_path: Path) -> None:
    """serve says what to try; it must work."""
    if shutil.which("curl") is None:
        skip_or_fail("curl is not there")
    async with running_command(tmp_path, "serve", "--config", write(tmp_path)) as service:
        configuration = load(tmp_path / "skybridge.yaml", {}).config
        pasted = example_command(configuration, service.announced["events"].removesuffix("/events"))
        process = await asyncio.create_subprocess_shell(
            pasted, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        answer, _ = await process.communicate()
        assert await service.stop() == 0
    assert answer.startswith(b"HTTP/1.1 202")


@pytest.mark.parametrize(
    "producer",
    [
        {"keys": ["${file:key}"]},
        {"keys": ["${file:key}"], "header": "x-key"},
        {"keys": ["key-of-the-shop-1234"]},
        {
            "keys": ["key-of-the-shop-1234"],
            "may": {"sources": ["/shop/*"], "types": ["com.shop.order"], "routes": ["second"]},
        },
    ],
)
async def test_the_printed_curl_has_a_key(tmp_path: Path, producer: dict[str, Any]) -> None:
    """Where only producers may send: from its file or a variable; the key itself is never printed."""
    (tmp_path / "key").write_text("key-of-the-shop-1234")
    settings = configuration(
        tmp_path,
        server={"events": {"access": "producers"}},
        routes=[route(name="first"), route(name="second")],
        producers=[{"name": "shop", **producer}],
    )
    written(settings, tmp_path)
    async with running_command(tmp_path, "serve", "--config", "skybridge.yaml") as service:
        with contextlib.chdir(tmp_path):
            made = load(Path("skybridge.yaml"), {}).config
        command = example_command(made, service.announced["events"].removesuffix("/events"))
        assert "key-of-the-shop" not in command
        answers = []
        for key in ("", "key-of-the-shop-1234"):
            process = await asyncio.create_subprocess_shell(
                command, cwd=tmp_path, env={**os.environ, "SKYBRIDGE_EVENTS_KEY": key},
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            answers.append(await process.communicate())
    assert answers[1][0].startswith(b"HTTP/1.1 202"), answers[1]
    if "${file:key}" not in producer["keys"]:
        assert b"set it to a key of shop" in answers[0][1]


async def test_a_state_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """An empty table would say that no subscription is in it."""
    config = write(tmp_path, sink="http://127.0.0.1:9/")
    async with running_command(tmp_path, "serve", "--config", config) as service:
        words = ("subscriptions", "list", "--server", service.announced["admin"], "--state")
        code, out, err = await run(tmp_path, *words, "runing")
        assert (code, out) == (exits.SETUP, "")
        assert "running" in err, "it names those that exist"
        assert (await run(tmp_path, *words, "disabled"))[0] == exits.OK


async def test_a_worker_of_its_own_listens_to_no_events(tmp_path: Path) -> None:
    """Roles run apart: its readiness speaks of its own role alone."""
    config = write(tmp_path)
    async with running_command(tmp_path, "serve", "--config", config, "--role", "worker") as worker:
        assert worker.announced["events"] is None
        assert set((await get(worker, "/readyz")).json()["roles"]) == {"worker"}
        assert await worker.stop() == 0


async def test_the_demo_keeps_its_account(tmp_path: Path) -> None:
    """The first thing anybody runs: exit 0 only when accepted = delivered + dead-lettered, with at
    least one dead letter, retries and a 429 on the way."""
    code, out, err = await run(tmp_path, "demo", "--generated", "--count", "160", "--json")
    assert code == exits.OK, err
    *ways, account = map(json.loads, out.splitlines())
    assert account["holds"] is True
    assert len(ways) == account["sent"] == account["accepted"] == 160
    of = {line["subscription"]: line for line in account["subscriptions"]}
    assert of["picky"]["dead_lettered"] > 0
    assert of["recovering"]["attempts"] > 160
    assert of["busy"]["attempts"] > 160
    assert any(429 in way["answers"]["busy"] for way in ways)


@pytest.mark.nightly
async def test_a_demo_that_stays_can_be_looked_at_until_it_is_ended(tmp_path: Path) -> None:
    """Its account is told first; Ctrl+C then ends the service in order."""
    words = ("demo", "--generated", "--count", "20", "--json", "--stay")
    demo = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", *words, cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(240):
            told = [json.loads(await demo.stdout.readline()) for _ in range(21)]
            assert told[-1]["holds"] is True
            while "The service keeps running" not in (await demo.stderr.readline()).decode():
                assert demo.returncode is None, "it has ended"
            line = (await demo.stderr.readline()).decode()
            console = re.search(r"http://\S+/console/", line)[0]
            async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
                shown = (await client.get(console)).status_code
                assert shown == (503 if "(" in line else 200), "the line says why it is not there"
                topics = (await client.get(f"{console}../v1/topics")).text
            assert "events" in topics
            demo.send_signal(signal.SIGINT)
            assert await demo.wait() == exits.OK
    finally:
        if demo.returncode is None:
            demo.kill()
            await demo.wait()
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(console)

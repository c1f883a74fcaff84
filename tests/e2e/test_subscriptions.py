"""Subscriptions of the API over a real service: made, changed, paused, replayed, killed, moved to a file."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.store.encryption import new_key
from configuration import configuration, route
from delivery_installation import numbered
from forked import completed
from sending import BATCH
from service_process import ServiceProcess
from waiting import until
from webhook_target import WebhookTarget, status

MERGE = {"content-type": "application/merge-patch+json"}


class House:
    """``skybridge serve`` on one folder, and a client of its listeners."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = new_key()
        settings = configuration(
            folder,
            store={"encryption": {"key": self.key}},
            brokers={"log": {"partitions": 4}},
            routes=[route(key={"mapper": "partitionkey"})],
            log={"level": "debug"},
        )
        self.process = ServiceProcess(settings, folder)
        self.client = httpx.AsyncClient(base_url=self.process.admin_url, timeout=60)

    async def start(self, pasted: str = "") -> None:
        """``pasted``: text at the end of the file, as a person would paste it."""
        lines = [f"{name}: {json.dumps(value)}\n" for name, value in self.process.settings.items()]
        self.process.file.write_text("".join(lines) + pasted)
        await asyncio.to_thread(self.process.start, {"SECRET": "hunter2-of-the-file"})

    async def stop(self) -> None:
        await asyncio.to_thread(self.process.stop)

    async def kill(self) -> None:
        await asyncio.to_thread(self.process.kill)

    async def publish(self, first: int, count: int, keys: int = 3) -> None:
        async with httpx.AsyncClient(timeout=120) as client:
            answer = await client.post(
                f"{self.process.events_url}/events",
                json=numbered(first, count, keys),
                headers=BATCH,
            )
        assert answer.status_code == 202

    async def make(self, target: WebhookTarget, **more: Any) -> httpx.Response:
        document = {
            "id": "made",
            "source": {"broker": "log", "topics": ["events"]},
            "sink": target.url,
            "handshake": "off",
            **more,
        }
        answer = await self.client.post("/v1/subscriptions", json=document)
        assert answer.status_code == 201, answer.text
        return answer

    async def health(self, name: str = "made") -> dict[str, Any]:
        found = (await self.client.get(f"/v1/subscriptions/{name}/status")).json()
        return found["health"]

    async def cli(self, *words: str, **environ: str) -> str:
        env = {"SKYBRIDGE_SERVER": str(self.client.base_url), **environ}
        result = await asyncio.to_thread(completed, "subscriptions", *words, env=env)
        assert result.returncode == 0, result.stderr
        return result.stdout


@pytest.fixture
async def house(tmp_path):
    house = House(tmp_path)
    await house.start()
    yield house
    if house.process.running:
        await house.stop()
    await house.client.aclose()


async def test_one_that_is_made_delivers_at_once_and_after_a_restart(house, target):
    """201 means that it has its place: what comes from then on is delivered, also with start latest."""
    await house.make(target)
    await house.publish(0, 20)
    await until(lambda: len(target.ids) == 20, "deliveries")
    await house.kill()
    await house.start()
    await house.publish(20, 20)
    await until(lambda: set(target.ids) >= set(map(str, range(40))), "deliveries after a restart")
    etag = (await house.client.get("/v1/subscriptions/made")).headers["etag"]
    patched = await house.client.patch(
        "/v1/subscriptions/made",
        content='{"filters": [{"exact": {"id": "45"}}]}',
        headers={**MERGE, "if-match": etag},
    )
    assert patched.status_code == 200
    await house.publish(40, 10)
    await until(lambda: "45" in target.ids, "the one that is wanted")
    assert not {"44", "46"} & set(target.ids)


async def test_a_sink_is_refused_where_its_delivery_would_be_and_called_as_it_is_written(
    house, target
):
    """Spellings of loopback that the guard cannot read; characters of no URL; and the bytes of the request line."""
    document = {"id": "no", "source": {"broker": "log", "topics": ["events"]}}
    hosts = ("0", "127.1", "2130706433", "0x7f.1", "0177.0.0.1")
    refused = [f"{scheme}://{host}/x" for host in hosts for scheme in ("http", "https")]
    for sink in (*refused, f"{target.url}?a={{b}}"):
        answer = await house.client.post("/v1/subscriptions/", json={**document, "sink": sink})
        assert answer.status_code == 422, sink
        assert [fault["at"] for fault in answer.json()["faults"]] == ["/sink"]
    assert "'{', '}'" in answer.text
    written = f"{target.url}/../%7e%2f?to=a%40b.example&dir=in%2Fbox"
    await house.make(target, sink=written)
    await house.publish(0, 1)
    await until(lambda: target.received, "a delivery")
    assert target.received[0].path == "/hook/../%7e%2f?to=a%40b.example&dir=in%2Fbox"


async def test_a_shorter_schedule_tells_what_becomes_of_what_waits(house, target):
    """As ``skybridge plan`` does of the file: nobody may be surprised by dead letters."""
    made = await house.make(target, retry={"schedule": ["1s", "2s", "3s"]})
    told = {"content-type": "application/json"}
    etag, warned = made.headers["etag"], []
    for method, body, kind in (
        ("PATCH", {"retry": {"schedule": ["9s", "9s"]}}, MERGE),
        ("PUT", made.json(), told),
        ("PATCH", {"retry": None}, MERGE),
        ("PUT", made.json(), told),
    ):
        answer = await house.client.request(
            method, "/v1/subscriptions/made", json=body, headers={**kind, "if-match": etag}
        )
        assert answer.status_code == 200
        etag = answer.headers["etag"]
        warned.append(answer.headers.get("skybridge-warning", "").partition(";")[0])
    shorter = "subscription made: retry.schedule goes from"
    assert warned == [f"{shorter} 3 waits to 2", "", "", f"{shorter} 11 waits to 3"]


async def test_one_that_is_deleted_and_made_again_begins_anew(house, target):
    """Its group is forgotten: it must not go on where another one was."""
    await house.make(target, start="earliest")
    await house.publish(0, 5)
    await until(lambda: len(target.ids) == 5, "deliveries")
    assert (await house.client.delete("/v1/subscriptions/made")).status_code == 200
    await house.publish(5, 5)
    await house.make(target, start="earliest")
    await until(lambda: len(target.ids) == 15, "all of the log")
    assert Counter(target.ids)["0"] == 2
    assert Counter(target.ids)["7"] == 1


async def test_a_pause_outlives_a_restart(house, target):
    await house.make(target)
    paused = await house.client.post("/v1/subscriptions/made:pause", json={"cause": "lunch"})
    assert paused.json()["health"]["state"] == "paused"
    await house.publish(0, 5)
    await house.kill()
    await house.start()
    while (await house.health())["state"] != "paused":
        await asyncio.sleep(0.05)
    assert "lunch" in (await house.health())["cause"]
    assert target.received == []
    await house.client.post("/v1/subscriptions/made:resume")
    await until(lambda: len(target.ids) == 5, "what came meanwhile")


@pytest.mark.parametrize("body", [b"{", b"\x98\xff"], ids=["no JSON", "no UTF-8"])
async def test_a_body_that_nobody_can_read_is_told_as_such(house, target, body):
    await house.make(target)
    headers = {"content-type": "application/json"}
    answer = await house.client.post("/v1/subscriptions/made:pause", content=body, headers=headers)
    assert answer.status_code == 422
    assert [fault["code"] for fault in answer.json()["faults"]] == ["json-invalid"]


@pytest.mark.nightly
async def test_a_replay_that_is_killed_loses_nothing(house, target):
    """SIGKILL in the middle: it goes on, and every event of the range has come once more."""
    await house.make(target)
    await house.publish(0, 200, keys=20)
    await until(lambda: len(set(target.ids)) == 200, "deliveries")
    target.received.clear()
    asked = await house.client.post(
        "/v1/subscriptions/made:replay", json={"from": "earliest", "rate": 100}
    )
    assert (asked.status_code, asked.json()["total"]) == (202, 200)
    again = await house.client.post("/v1/subscriptions/made:replay", json={"from": "earliest"})
    assert again.status_code == 409
    await until(lambda: len(target.ids) > 60, "the middle of the replay")
    target.answer = lambda _: (
        None
    )  # no delivery succeeds any more, so the replay stays in its middle
    await house.kill()
    before = len(set(target.ids))
    target.answer = lambda _: status(204)
    await house.start()
    await until(lambda: len(set(target.ids)) == 200, "the whole range")

    async def over() -> bool:
        return not (await house.client.get("/v1/subscriptions/made/replays")).json()

    while not await over():
        await asyncio.sleep(0.05)
    assert before < 200
    while (await house.health())["lag"] != 0:
        await asyncio.sleep(0.05)
    await house.publish(200, 1)
    await until(lambda: "200" in target.ids, "a live one behind it")


async def test_a_test_event_says_what_the_target_says(house, target):
    target.answer = lambda _: status(503, body=b"not now")
    await house.make(target)
    answer = (await house.client.post("/v1/subscriptions/made:test")).json()
    assert (answer["delivered"], answer["status"], answer["response"]) == (False, 503, "not now")
    assert target.received[0].header("ce-type") == "dev.skybridge.subscription.test"
    assert target.received[0].id == answer["event"]


async def test_no_secret_is_kept_in_clear_shown_or_logged(house, target):
    made = await house.make(target, auth={"kind": "bearer", "token": "hunter2-of-the-api"})
    await house.publish(0, 1)
    await until(lambda: len(target.ids) == 1, "delivery")
    assert target.received[0].header("authorization") == "Bearer hunter2-of-the-api"
    shown = made.text + (await house.client.get("/v1/subscriptions")).text
    await house.stop()
    kept = [file for file in house.folder.rglob("*") if file.is_file()]
    assert len(kept) > 3
    for file in kept:
        assert b"hunter2-of-the-api" not in file.read_bytes(), file
    assert "hunter2" not in shown


async def test_those_of_the_file_are_shown_with_references_and_changed_there(house, target):
    await house.stop()
    filed = f"""subscriptions:
  - id: filed
    source: {{broker: log, topics: [events]}}
    sink: {target.url}
    auth: {{kind: bearer, token: "${{env:SECRET}}"}}
"""
    await house.start(filed)
    shown = await house.client.get("/v1/subscriptions/filed")
    assert shown.json()["auth"]["token"] == "${env:SECRET}"
    assert "hunter2" not in shown.text
    refused = await house.client.delete("/v1/subscriptions/filed")
    assert refused.status_code == 409
    assert "skybridge.yaml, line" in refused.json()["detail"]


async def test_export_pastes_into_the_file_and_a_file_into_create(house, target):
    """One set of names for file and API (design, Configuration)."""
    await house.make(target, timeout="3s", retry={"hold": 1}, filters=[{"sql": "id <> '$${x}'"}],
                     auth={"kind": "bearer", "token": "hunter2-of-the-api"})  # fmt: skip
    exported = await house.cli("export")
    assert "${env:MADE_AUTH_TOKEN}" in exported
    document = (await house.client.get("/v1/subscriptions/made")).json()
    await house.cli("delete", "made", "--yes")
    await house.stop()
    await house.start(exported.replace("MADE_AUTH_TOKEN", "SECRET"))
    filed = (await house.client.get("/v1/subscriptions/made")).json()
    assert {**filed, "auth": None} == {**document, "auth": None}
    await house.stop()
    (house.folder / "made.yaml").write_text(exported)
    await house.start()
    await house.cli("create", "-f", str(house.folder / "made.yaml"), MADE_AUTH_TOKEN="a$b${c}")
    await house.publish(0, 1)
    await until(lambda: len(target.ids) == 1, "delivery")
    assert target.received[0].header("authorization") == "Bearer a$b${c}"


async def test_the_same_id_in_file_and_store_refuses_the_start(house, target):
    await house.make(target)
    await house.stop()
    filed = f"""subscriptions:
  - {{id: made, source: {{broker: log, topics: [events]}}, sink: "{target.url}"}}
"""
    with pytest.raises(RuntimeError, match="was also created by the API"):
        await house.start(filed)


async def test_the_draft_of_cloudevents_is_spoken_too(house, target):
    """The same subscriptions in the words of the Subscriptions API (spec.md 6.1)."""
    draft = {
        "source": "/k1",
        "types": ["com.example.counted"],
        "config": {"broker": "log", "topics": ["events"]},
        "sink": target.url,
        "protocol": "HTTP",
    }
    made = await house.client.post("/subscriptions", json=draft)
    assert made.status_code == 201, made.text
    assert made.json() == {"id": made.json()["id"], **draft, "filters": []}
    await house.publish(0, 9)
    await until(lambda: len(target.ids) == 3, "those of the source")
    assert set(target.ids) == {"1", "4", "7"}
    location = made.headers["location"]
    assert (await house.client.get(location)).json() == made.json()
    allow = (await house.client.options(location)).headers["allow"]
    assert set(allow.split(", ")) == {"GET", "PUT", "DELETE", "OPTIONS"}
    assert (await house.client.delete(location)).json() == made.json()
    assert (await house.client.get(location)).status_code == 404

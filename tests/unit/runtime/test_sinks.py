"""From a subscription to its sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.bindings.http import HttpMessage
from app.bindings.record import ContentMode, Decoded
from app.config.load.loader import load
from app.config.model.config import Config
from app.errors import SetupError
from app.features.brokers.logs import open_logs, with_relaxed_logs
from app.features.subscriptions.sinks import open_sink
from app.features.subscriptions.webhooks import client_for
from app.formats import json
from app.interfaces.clock import SystemClock
from app.sinks.topic import TopicSink
from app.sinks.webhook import WebhookSink
from app.telemetry import Counters
from raw_target import PlayedConnection, RawTarget

YAML = """
version: 1
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  log: {{kind: embedded, path: {folder}/log}}
  main: {{kind: kafka, bootstrap_servers: "127.0.0.1:9"}}
routes: [{{name: everything, to: {{broker: log, topic: events}}}}]
timeouts: {{publish: 3s}}
subscriptions:
  - id: s
    source: {{broker: log, topics: [events]}}
    sink: {sink}
    content_mode: structured
"""


def config(folder: Path, sink: str) -> Config:
    file = folder / "skybridge.yaml"
    file.write_text(YAML.format(folder=folder, sink=sink))
    return load(file, {}).config


def sink_of(config: Config) -> Any:
    logs = with_relaxed_logs(config, open_logs(config), Counters())
    return open_sink(config.subscriptions[0], config, logs, SystemClock())


def test_a_url_is_a_webhook_and_a_place_is_a_topic(tmp_path: Path) -> None:
    assert isinstance(sink_of(config(tmp_path, "https://b.example/")), WebhookSink)
    assert isinstance(sink_of(config(tmp_path, "{broker: main, topic: t}")), TopicSink)


def test_a_mirror_has_the_settings_of_its_subscription_and_its_broker(tmp_path: Path) -> None:
    sink = sink_of(config(tmp_path, "{broker: main, topic: 'copy.{type}'}"))
    assert (sink._log.name, sink._writing.mode, sink._within) == ("main", "structured", 3.0)
    assert sink._topic({"type": "x"}) == "copy.x"
    assert sink._forward is None
    assert sink._sources == frozenset()


def test_a_mirror_on_its_own_broker_knows_its_sources(tmp_path: Path) -> None:
    """Against going round: the same topic of another broker is no circle."""
    assert sink_of(config(tmp_path, "{broker: log, topic: '{type}'}"))._sources == {"events"}


async def test_requests_that_are_sent_again_are_counted(tmp_path: Path) -> None:
    """skybridge_webhook_reconnects_total."""

    async def play(played: PlayedConnection) -> None:
        await played.request()
        await played.send(b"HTTP/1.1 204 X\r\n\r\n")
        await played.request()

    target = RawTarget(play)
    file = config(tmp_path, await target.start())
    file = file.model_copy(
        update={"webhooks": file.webhooks.model_copy(update={"allow_private": ("127.0.0.0/8",)})}
    )
    counters = Counters()
    client = client_for(file.subscriptions[0], file, counters)
    url = str(file.subscriptions[0].sink)
    for _ in range(2):
        assert (await client.post(url, HttpMessage.of((), b""), 60.0)).status == 204
    assert counters.values()["webhook_reconnects"] == {("s",): 1}
    await client.stop()
    await target.stop()


def test_a_broker_that_nobody_configured_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        SetupError, match=r"subscriptions\.s\.sink\.broker: broker 'x' does not exist"
    ):
        sink_of(config(tmp_path, "{broker: x, topic: t}"))


def test_a_reply_goes_by_its_route(tmp_path: Path) -> None:
    sink = sink_of(config(tmp_path, "https://b.example/\n    reply: everything"))
    assert sink._replies is not None
    plain = sink_of(config(tmp_path, "https://b.example/"))
    assert plain._replies is None


def test_a_route_that_nobody_configured_says_so(tmp_path: Path) -> None:
    """The API may make a subscription before the file has its route."""
    with pytest.raises(SetupError, match="route 'nowhere' does not exist") as caught:
        sink_of(config(tmp_path, "https://b.example/\n    reply: nowhere"))
    assert caught.value.setting == "subscriptions.s.reply"


def test_several_in_one_request_are_written_in_the_format_of_the_subscription(
    tmp_path: Path,
) -> None:
    for format_, media in (("as_received", "json"), ("protobuf", "protobuf")):
        given = config(tmp_path, f"https://b.example/\n    batch: {{}}\n    format: {format_}")
        request = sink_of(given)._requests.join([], ())
        (media_type,) = request.message.values
        assert media_type.startswith(f"application/cloudevents-batch+{media}")


def test_a_reply_whose_data_does_not_match_goes_where_its_route_says(tmp_path: Path) -> None:
    """As an event that is posted: replies were refused by their route's schema and lost."""
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    file = tmp_path / "skybridge.yaml"
    text = YAML.format(folder=tmp_path, sink="https://b.example/\n    reply: checked")
    checked = (
        "routes:\n  - {name: checked, to: {broker: log, topic: good}, "
        f"schema: {{file: {tmp_path}/schema.json, on_invalid: {{route: everything}}}}}}\n  - "
    )
    file.write_text(
        text.replace("routes: [", checked).replace("topic: events}}]", "topic: events}}")
    )
    replies = sink_of(load(file, {}).config)._replies
    event = json.read_event(b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":5}')
    (planned,) = replies._router.plan(Decoded(event, ContentMode.BINARY), None, "checked")
    assert (planned.route, planned.topic) == ("everything", "events")

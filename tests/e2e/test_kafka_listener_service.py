"""``skybridge serve`` with a Kafka listener that asks for logins: what the file says is what clients meet."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.request
from pathlib import Path

from confluent_kafka import Producer

from authority import Authority
from service_process import ServiceProcess, free_ports

EVENT = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]


def send(producer: Producer, headers: list[tuple[str, bytes]]) -> str:
    """The error's name, or empty."""
    told: list[str] = []
    producer.produce(
        "orders", b"{}", headers=headers,
        on_delivery=lambda error, _: told.append(error.name() if error else ""),
    )  # fmt: skip
    producer.flush(20)
    return told[0]


def send_nonsense(port: int, ca: str) -> None:
    """A frame of 2 GiB, which nobody is given; returns when the connection is closed."""
    context = ssl.create_default_context(cafile=ca)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        wrapped.sendall(b"\x7f\xff\xff\xff")
        assert wrapped.recv(1) == b""


def test_logins_tls_validation_and_metrics_come_from_the_file(tmp_path: Path) -> None:
    """A user who is named comes in, over TLS; a topic of CloudEvents takes nothing else; metrics tell."""
    events, admin, kafka = free_ports(3)
    authority = Authority(tmp_path)
    certificate, key = authority.server("localhost", "127.0.0.1")
    file = tmp_path / "skybridge.yaml"
    file.write_text(f"""\
version: 1
server: {{events: {{port: {events}}}, admin: {{port: {admin}}}}}
timeouts: {{store: 60s, publish: 60s, not_ready: 0}}
store: {{kind: sqlite, path: {tmp_path}/store.db}}
brokers:
  log:
    kind: embedded
    path: {tmp_path}/log
    topics: {{orders: {{validate: cloudevents}}}}
    kafka_listener:
      listen: "127.0.0.1:{kafka}"
      tls: {{cert: {certificate}, key: {key}}}
      sasl: {{users: {{ann: "${{env:ANN}}"}}}}
routes: [{{name: all, to: {{broker: log, topic: orders}}}}]
""")
    service = ServiceProcess(file, tmp_path, admin)
    service.start({"ANN": "very secret"})
    try:
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{kafka}",
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": authority.ca,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "ann",
                "sasl.password": "very secret",
            }
        )
        assert send(producer, EVENT) == ""
        assert send(producer, EVENT[:2]) == "INVALID_RECORD"
        send_nonsense(kafka, authority.ca)
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/status", timeout=60) as answer:
            status = json.load(answer)
        counters = status["counters"]
        (listener,) = status["kafka_listeners"]
        assert listener["connections"] >= 1
        assert {name: listener[name] for name in listener if name != "connections"} == {
            "broker": "log",
            "address": f"127.0.0.1:{kafka}",
            "held_bytes": 0,
            "refused_connections": 0,
            "refused_frames": 1,
        }
        assert counters["kafka_records"]["produced"] == 1
        assert counters["kafka_refused_batches"] == {"invalid_record": 1}
        assert counters["kafka_logins"]["accepted"] >= 1
    finally:
        service.stop()
    assert "very secret" not in service.log.read_text()

"""A configuration that is proposed over the API: judged and compared, and never a way to read what the service reads."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import shutil
from pathlib import Path

import pytest

from app.config.diff.judging import judge
from app.config.diff.proposal import propose
from app.config.diff.shown import view_of
from app.config.lint import routes as lint_routes
from app.config.load.finding import BadConfiguration

BROKERS = b"brokers: {log: {kind: embedded, path: ./log}}\n"
BEGIN = b"version: 1\n" + BROKERS
CANARY = "canary-of-the-service"


def shown(text: bytes) -> object:
    return view_of(propose(text)[0]).shown


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANARY", CANARY)
    monkeypatch.setenv("SKYBRIDGE_INSTALLATION", CANARY)
    file = tmp_path / "canary"
    file.write_text(CANARY)
    return file


def test_references_are_kept_as_they_stand(secrets: Path) -> None:
    """In every kind of setting: texts, numbers, times, sizes, words and secrets."""
    text = (
        BEGIN
        + b"""
installation: "${env:CANARY}"
server:
  admin: {host: 0.0.0.0, port: "${env:CANARY}", token: "${file:%b}", tokens: [{name: a, token: "${env:CANARY}", scopes: ["${env:CANARY}"]}]}
  events: {tls: {cert: "${env:CANARY}", key: /none}, reuse_port: "${env:CANARY}"}
store: {kind: postgresql, dsn: "${env:CANARY}", encryption: {key: "${file:%b}"}}
routes: [{name: all, to: {broker: log, topic: "t-${env:CANARY}"}, content_mode: "${env:CANARY}"}]
timeouts: {publish: "${env:CANARY}"}
limits: {body: "${env:CANARY}"}
webhooks: {proxy: "${env:CANARY}"}
"""
        % (str(secrets).encode(), str(secrets).encode())
    )
    found = str(shown(text))
    assert CANARY not in found
    assert found.count("${env:CANARY}") == 12
    assert found.count(f"${{file:{secrets}}}") == 2


def test_nothing_tells_whether_a_file_or_a_variable_is_there(secrets: Path) -> None:
    """Nor through a finding."""
    findings = []
    for file, variable in ((str(secrets), "CANARY"), (str(secrets.parent / "none"), "NOTHING")):
        text = BEGIN + (
            f"server: {{events: {{host: 0.0.0.0, access: producers, tls: {{cert: {file}, key: '${{env:{variable}}}'}}}}}}\n"
            f"pipeline: {{lake: {{warehouse: '{file}'}}}}\n"
            f"producers: [{{name: a, jwt: {{issuer: 'https://id', audience: a, match: {{a: b}}, jwks: '{file}'}}}}]\n"
            "routes:\n"
            f"  - {{name: all, to: {{broker: log, topic: events}}, schema: {{file: '{file}'}}}}\n"
            f"  - {{name: some, to: {{broker: log, topic: events}}, schema: {{dataschema: {{'u': '{file}'}}}}}}\n"
        ).encode()  # fmt: skip
        findings.append([(each.setting, each.message) for each in propose(text)[1]])
    assert findings[0] == findings[1]


def test_what_is_wrong_beside_references_is_told_with_its_line() -> None:
    with pytest.raises(BadConfiguration) as bad:
        propose(BEGIN + b"limits: {body: 1, max_batch: '${env:N}'}\nlog: {level: loud}\n")
    assert [(each.setting, each.line) for each in bad.value.findings] == [
        ("limits.body", 3), ("log.level", 4),
    ]  # fmt: skip


@pytest.mark.parametrize("text", [b"routes: '${env:N}'\n", b"limits: '${env:N}'\n"])
def test_what_no_stand_in_fits_cannot_be_judged_here(text: bytes) -> None:
    with pytest.raises(BadConfiguration) as bad:
        propose(BEGIN + text)
    (finding,) = bad.value.findings
    assert "it cannot be checked" in finding.message
    assert "skybridge check" in finding.cure


def test_a_reference_of_a_wrong_form_is_a_finding() -> None:
    with pytest.raises(BadConfiguration, match=r"\$\{env:NAME\}"):
        propose(BEGIN + b"installation: '${CANARY}'\n")


def test_a_plan_compares_references_as_text() -> None:
    """The same reference is no change, whatever it stands for; overrides of the environment stay."""
    now = shown(BEGIN + b"server: {admin: {token: '${env:A}', port: '${env:P}'}}\n")
    same = judge(BEGIN + b"server: {admin: {token: '${env:A}', port: '${env:P}'}}\n", now)
    assert not [each for each in same.remarks if each.level == "error"]
    assert same.changes == []
    other = judge(BEGIN + b"server: {admin: {token: '${env:B}', port: 9}}\n", now)
    assert [
        (each.setting, each.effect, bytes(each.old), bytes(each.new)) for each in other.changes
    ] == [
        ("server.admin.port", "restart", b'"${env:P}"', b"9"),
        ("server.admin.token", "live", b'"${env:A}"', b'"${env:B}"'),
    ]
    overridden = {**now, "installation": "${env:SKYBRIDGE_INSTALLATION}"}  # type: ignore[dict-item]
    assert judge(BEGIN, overridden).changes[0].setting.startswith("server.admin")


def test_a_plan_of_what_is_wrong_has_errors_and_no_changes() -> None:
    found = judge(b"version: 2", shown(BEGIN))
    assert [each for each in found.remarks if each.level == "error"]
    assert not found.changes


FILES = """
server:
  events: {{access: producers, tls: {{cert: {c}, key: {c}, client_ca: {c}}}}}
  admin: {{tls: {{cert: {c}, key: {c}}}}}
store: {{kind: sqlite, path: {c}}}
brokers:
  log: {{kind: embedded, path: {c}, kafka_listener: {{listen: "127.0.0.1:1", tls: {{cert: {c}, key: {c}}}}}}}
  kafka: {{kind: kafka, bootstrap_servers: "k:1", security: {{tls: {{ca: {c}}}, sasl: {{mechanism: OAUTHBEARER, token_file: {c}}}}}}}
  pulsar: {{kind: pulsar, service_url: "pulsar://p:6650", admin_url: "http://p:8080", client_log: {c}}}
pipeline: {{lake: {{warehouse: {c}}}}}
producers: [{{name: a, jwt: {{issuer: "https://id", audience: a, match: {{a: b}}, jwks: {c}}}}}]
routes:
  - {{name: all, to: {{broker: kafka, topic: t}}, schema: {{file: {c}}}, spool: {{broker: log, max: 1GiB}}}}
  - {{name: some, to: {{broker: log, topic: t}}, schema: {{dataschema: {{u: {c}}}}}}}
subscriptions:
  - id: s
    source: {{broker: log, topics: [t]}}
    sink: "https://x.example/"
    tls: {{ca: {c}, cert: {c}, key: {c}}}
"""


def test_no_file_that_a_proposal_names_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even asked whether it is there, or where its links lead."""
    place, touched = tmp_path / "canary-of-the-service", []

    def watch(module: object, name: str) -> None:
        real = getattr(module, name)

        def watched(path: object, *more: object, **named: object) -> object:
            if isinstance(path, str | os.PathLike) and CANARY in os.fspath(path):
                touched.append((name, path))
            return real(path, *more, **named)

        monkeypatch.setattr(module, name, watched)

    for name in ("stat", "lstat", "readlink", "open", "listdir", "scandir", "access"):
        watch(os, name)
    watch(io, "open")
    watch(builtins, "open")
    watch(shutil, "disk_usage")
    with contextlib.suppress(BadConfiguration):
        propose(b"version: 1\n" + FILES.format(c=place).encode())
    assert touched == []
    place.read_bytes() if place.exists() else None
    assert touched, "the watch sees what is touched"


def test_a_proposal_runs_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key mapper of one's own is known by its name, and not imported."""

    def loaded(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(lint_routes, "known_mappers", lambda _: ("ours",))
    monkeypatch.setattr(lint_routes, "load_key_mappers", loaded)
    routes = b"routes: [{name: all, to: {broker: log, topic: t}, key: {mapper: %b}}]\n"
    propose(BEGIN + routes % b"ours")
    with pytest.raises(BadConfiguration, match="The key mapper"):
        propose(BEGIN + routes % b"theirs")

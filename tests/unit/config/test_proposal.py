"""A configuration that is proposed over the API: judged and compared, and never a way to read what the service reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.finding import BadConfiguration
from app.config.proposal import propose
from app.config.shown import view_of
from app.runtime.reload.reloader import judge

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
    assert "it cannot be judged" in finding.message
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
    assert [(each.setting, each.effect, each.old, each.new) for each in other.changes] == [
        ("server.admin.port", "restart", "${env:P}", 9),
        ("server.admin.token", "live", "${env:A}", "${env:B}"),
    ]
    overridden = {**now, "installation": "${env:SKYBRIDGE_INSTALLATION}"}  # type: ignore[dict-item]
    assert judge(BEGIN, overridden).changes[0].setting.startswith("server.admin")


def test_a_plan_of_what_is_wrong_has_errors_and_no_changes() -> None:
    found = judge(b"version: 2", shown(BEGIN))
    assert [each for each in found.remarks if each.level == "error"]
    assert not found.changes

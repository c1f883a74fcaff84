"""The section pipeline: what the archive is told to read can be read, and its lake stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.load.finding import BadConfiguration

Lint = Callable[..., list[str]]

LISTENING = (
    "version: 1\nstore: {kind: sqlite, path: /srv/s.db}\nbrokers:\n"
    '  log: {kind: embedded, path: /srv/l, kafka_listener: "127.0.0.1:19092"}\n'
    "  mute: {kind: embedded, path: /srv/m}\n"
    '  rabbit: {kind: rabbitmq, addresses: "127.0.0.1:5672"}\n'
)


def findings(lint_text: Lint, section: str) -> list[str]:
    found = lint_text(f"{LISTENING}pipeline: {section}\n", minimal=False)
    return [each for each in found if "pipeline" in each]


@pytest.mark.parametrize(
    "section",
    [
        "{}",
        "{archive: {broker: log, topics: [orders], start: {time: 2026-01-01T00:00:00Z}}}",
        "{lake: {warehouse: /srv/lake}}",
        "{lake: {warehouse: 's3://bucket/lake', catalog: {kind: rest, uri: 'https://catalog'}}}",
    ],
)
def test_what_can_be_done_is_not_warned_of(lint_text: Lint, section: str) -> None:
    assert findings(lint_text, section) == []


@pytest.mark.parametrize(
    ("section", "finding"),
    [
        ("{archive: {broker: lag}}", "The broker 'lag' does not exist"),
        ("{archive: {broker: mute}}", "The embedded log 'mute' has no Kafka listener"),
        ("{archive: {broker: rabbit}}", "is of kind rabbitmq, which the archive does not read"),
        (
            "{lake: {warehouse: /tmp/lake}}",
            "The path is in a folder that the operating system may empty, so acknowledged events may be lost",
        ),
        ("{lake: {warehouse: /etc/hostname}}", "The path is a file"),
    ],
)
def test_what_cannot_work_is_named_with_its_setting(
    lint_text: Lint, section: str, finding: str
) -> None:
    [found] = findings(lint_text, section)
    assert finding in found


@pytest.mark.parametrize(
    ("section", "refusal"),
    [
        (
            "{archive: {start: {position: {0: '1'}}}}",
            "The start of the archive cannot be a position",
        ),
        ("{lake: {catalog: {kind: rest}}}", "The catalog of kind rest needs uri"),
        ("{spark: {memory: lots}}", "pipeline.spark.memory"),
        ("{archive: {topics: ['a/b']}}", "pipeline.archive.topics"),
        (
            "{tables: [{type: a, schema: s, table: events}]}",
            "The table events is one of the lake's own",
        ),
        (
            "{tables: [{type: a, schema: s, table: leases}]}",
            "The table leases is one of the lake's own",
        ),
        (
            "{tables: [{type: a, schema: s, table: t}, {type: b, schema: s, table: t_latest}]}",
            "The table t_latest is one of the lake's own",
        ),
        ("{tables: [{type: a, schema: s, table: A}]}", "pipeline.tables[0].table"),
        (
            "{tables: [{type: a, schema: s, table: t}, {type: b, schema: s, table: t}]}",
            "The table t is in two tables",
        ),
        (
            "{tables: [{type: a, schema: s, table: t}, {type: a, schema: s, table: u}]}",
            "The type a is in two tables",
        ),
    ],
)
def test_what_is_no_setting_is_refused(lint_text: Lint, section: str, refusal: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        findings(lint_text, section)
    assert refusal in str(refused.value)


@pytest.mark.parametrize(
    ("schema", "finding"),
    [
        ('{"properties": {"n": {"type": "integer"}}}', ""),
        (None, "cannot be read"),
        ("{", "is not JSON"),
        ('{"type": "string"}', "does not describe an object with properties"),
    ],
)
def test_the_schema_of_a_typed_table_has_columns(
    lint_text: Lint, tmp_path: Path, schema: str | None, finding: str
) -> None:
    file = tmp_path / "schema.json"
    if schema is not None:
        file.write_text(schema)
    found = findings(lint_text, f"{{tables: [{{type: a, schema: '{file}', table: t}}]}}")
    assert [finding in each and "pipeline.tables[0].schema" in each for each in found] == (
        [True] if finding else []
    )

"""References to the environment and to files, and that what they hold is never repeated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config.lint.checks import lint
from app.config.load.finding import BadConfiguration, Finding
from app.config.load.loader import Loaded
from app.config.load.secrets import Unresolved, substitute

Refusal = Callable[..., list[Finding]]
Load = Callable[..., Loaded]
CANARY = "canary-7f3a-value"
UNRESOLVED = """\
line 6: error server.events.port: The environment variable PROT is not set. Cure: Set PROT. Did you mean PORT?
line 7: error server.admin.token: The file TMP/none cannot be read: No such file or directory. Cure: Check the path and its permissions.
line 8: error installation: The file TMP/binary is not UTF-8. Cure: Save the file as UTF-8."""


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("${env:A}", "alpha"),
        ("x-${env:A}-${env:B}-y", "x-alpha-beta-y"),
        ("$$", "$"),
        ("$${env:A}", "${env:A}"),
        ("$$${env:A}", "$alpha"),
        ("$5 and $A", "$5 and $A"),
        ("${env:LOOP}", "${env:A}"),  # what a value holds is not looked at again
        ("${env:EMPTY}", ""),
    ],
)
def test_references_stand_anywhere_in_a_text(text: str, made: str) -> None:
    """Passwords with dollar signs must survive, written with $$ or held by a variable."""
    environ = {"A": "alpha", "B": "beta", "LOOP": "${env:A}", "EMPTY": ""}
    assert substitute(text, environ) == made


@given(st.text())
def test_doubled_dollars_give_the_text_back(text: str) -> None:
    """Any text at all can be written."""
    assert substitute(text.replace("$", "$$"), {}) == text


@given(st.text())
def test_the_value_of_a_variable_is_taken_as_it_is(value: str) -> None:
    """Whatever a secret looks like."""
    assert substitute("a${env:X}b", {"X": value}) == f"a{value}b"


@pytest.mark.parametrize(
    "text", ["${A}", "${env:}", "${env:A", "${file:}", "${other:x}", "${}", "${"]
)
def test_a_malformed_reference_is_refused(text: str) -> None:
    """It would otherwise be taken for the password itself."""
    with pytest.raises(Unresolved, match="The reference is malformed"):
        substitute(text, {"A": "alpha"})


def test_a_file_gives_its_text_without_the_last_line_end(tmp_path: Path) -> None:
    """Editors and `echo` end a file with a line end; a password does not end with one."""
    path = tmp_path / "password"
    for content, made in [
        ("hunter2\n", "hunter2"),
        ("two\nlines\n", "two\nlines"),
        ("none", "none"),
        ("windows\r\n", "windows"),
    ]:
        path.write_bytes(content.encode())
        assert substitute(f"${{file:{path}}}", {}) == made


def test_what_cannot_be_resolved_is_said_once(refusal: Refusal, tmp_path: Path) -> None:
    """Each with its line and cure, and no second complaint about the text that stayed there."""
    (tmp_path / "binary").write_bytes(b"\xff")
    findings = refusal(
        f"server:\n  events: {{port: '${{env:PROT}}'}}\n  admin: {{token: '${{file:{tmp_path}/none}}'}}\n"
        f"installation: ${{file:{tmp_path}/binary}}\n",
        {"PORT": "1"},
        minimal=True,
    )
    told = "\n".join(str(each).replace(str(tmp_path), "TMP") for each in findings)
    assert told == UNRESOLVED


def test_a_reference_can_hold_a_number_or_a_switch(load_text: Load) -> None:
    """The environment knows only text; the model knows what is meant."""
    loaded = load_text(
        'server: {events: {port: "${env:PORT}"}}\nlimits: {body: "${env:BODY}"}\n',
        {"PORT": "9090", "BODY": "2MiB"},
        minimal=True,
    )
    assert (loaded.config.server.events.port, loaded.config.limits.body) == (9090, 2 << 20)


PLACES = [
    "installation: '{}'",
    "version: '{}'",
    "nonsense: '{}'",
    "server: {{events: {{port: '{}'}}}}",
    "server: '{}'",
    "server: {{admin: {{token: ['{}']}}}}",
    "server: {{admin: {{tokn: '{}'}}}}",
    "limits: {{body: '{}'}}",
    "timeouts: {{publish: '{}'}}",
    "log: {{level: '{}'}}",
    "routes: [{{name: '{}', to: {{broker: '{}', topic: '{}/'}}}}]",
    "routes: [{{name: a, to: {{broker: log, topic: '{{{}}}'}}}}]",
    "routes: [{{name: a, to: '{}'}}]",
    "routes: [{{name: a, filters: [{{'exact': '{}'}}], to: {{broker: log, topic: t}}}}]",
    "routes: [{{name: a, key: {{mapper: '{}'}}, to: {{broker: log, topic: t}}}}]",
    "routes: [{{name: a, key: {{mapper: pointer, pointer: '{}'}}, to: {{broker: log, topic: t}}}}]",
    "subscriptions: [{{id: '{}', source: {{broker: '{}', topics: ['{}']}}, sink: 'http://{}/x'}}]",
    "subscriptions: [{{id: a, source: {{broker: log, topics: [t]}}, sink: 'https://u:{}@x:99999/'}}]",
    "subscriptions: [{{id: a, source: {{broker: log, topics: [t]}}, sink: 'https://u:{}@x/'}}]",
    "subscriptions: [{{id: a, source: {{broker: log, topics: [t]}}, sink: 'https://x', start: '{}'}}]",
    "subscriptions: [{{id: a, source: {{broker: log, topics: [t]}}, sink: 'https://x', start: {{time: '{}'}}}}]",
    "webhooks: {{allow_private: ['{}/99']}}",
    "webhooks: {{allow_private: '{}'}}",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", ["env", "file", "override"])
def test_no_message_repeats_a_resolved_value(
    load_text: Load, tmp_path: Path, place: str, way: str
) -> None:
    """Reliability S12: a secret that landed in the wrong setting must not land in a log as well."""
    (tmp_path / "secret").write_text(CANARY)
    reference = f"${{file:{tmp_path}/secret}}" if way == "file" else "${env:CANARY}"
    environ = {"CANARY": CANARY}
    if way == "override":
        environ = {f"SKYBRIDGE_{place.partition(':')[0].upper()}__0__X": CANARY}
        if not place.startswith(("routes", "subscriptions")):
            environ = {f"SKYBRIDGE_{place.partition(':')[0].upper()}__X": CANARY}
        reference = "harmless"
    text = place.replace("{}", reference).replace("{{", "{").replace("}}", "}")
    try:
        loaded = load_text(text + "\n", environ, minimal=True)
    except BadConfiguration as error:
        told = f"{error} {error!r} {error.findings!r} {error.__cause__!r} {error.__context__!r}"
    else:
        told = "\n".join(f"{each} {each!r}" for each in lint(loaded)) + repr(loaded)
    assert CANARY not in told


def test_secret_settings_are_hidden_in_the_model(load_text: Load) -> None:
    """repr and dumps of a configuration end up in logs and crash reports."""
    loaded = load_text(
        f"server: {{admin: {{token: {CANARY}}}}}\n"
        f"brokers: {{k: {{kind: kafka, bootstrap_servers: 'h:1', security: {{sasl: {{mechanism: PLAIN, username: u, password: {CANARY}}}}}}}}}\n"
        "version: 1\n"
    )
    config = loaded.config
    assert config.server.admin.token is not None
    assert config.server.admin.token.get_secret_value() == CANARY
    for told in (
        repr(config),
        str(config),
        config.model_dump_json(),
        repr(config.model_dump()),
        repr(loaded),
    ):
        assert CANARY not in told


@pytest.mark.parametrize(
    "text",
    [
        "server: {{admin: {{token: {{x: {0}}}}}}}",
        "server: {{admin: {{tokn: {0}}}}}",
        "server: {{admin: {{token: [{0}]}}}}",
        "passwrd: {0}",
        "brokers: {{k: {{kind: kafka, bootstrap_servers: 'h:1', security: {{sasl: {{mechanism: PLAIN, username: u, pasword: {0}}}}}}}}}\nversion: 1",
        "producers: [{{name: p, kafka: {0}}}]",
        "store: {0}",
        "subscriptions: [{{id: s, source: {{broker: log, topics: [t]}}, sink: 'htps://x/?code={0}'}}]",
        "subscriptions: [{{id: s, source: {{broker: log, topics: [t]}}, sink: {{url: 'htps://x/{0}', secret: true}}}}]",
        "alerts: [{{name: ops, to: {{preset: slack, url: 'hooks.slack.com/services/{0}'}}}}]",
        'alerts: [{{name: ops, to: {{preset: slack, url: "https://hooks.slack.com/{0}\\n"}}}}]',
        "alerts: [{{name: ops, to: {{preset: pagerduty, kye: {0}}}}}]",
    ],
)
def test_a_secret_written_into_the_file_is_not_repeated(refusal: Refusal, text: str) -> None:
    """Whoever misspells `password` must not read the password in the error."""
    findings = refusal(text.format(CANARY) + "\n", minimal="version" not in text)
    assert findings
    assert CANARY not in "".join(f"{each} {each!r}" for each in findings)


@pytest.mark.parametrize(
    "text",
    [
        "telemetry: {{traces: {{endpoint: 'http://c/', headers: {{x-api-key: {0}}}}}}}",
        "pipeline: {{lake: {{catalog: {{properties: {{s3.access: {0}}}}}}}}}",
        "pipeline: {{spark: {{conf: {{a.b: {0}}}}}}}",
        "subscriptions: [{{id: s, source: {{broker: log, topics: [t]}}, sink: 'https://x', headers: {{x-key: {0}}}}}]",
        "server: {{admin: {{token: {0}}}}}",
    ],
)
def test_a_secret_of_digits_without_quotes_is_not_repeated(refusal: Refusal, text: str) -> None:
    """YAML reads a number, and the model wants text."""
    (found,) = refusal(text.format(8151623421) + "\n", minimal=True)
    assert "8151623421" not in f"{found} {found!r}"


@pytest.mark.parametrize(
    ("admin", "setting"),
    [
        ("token: ' '", "server.admin.token"),
        ("token: ''", "server.admin.token"),
        (
            "tokens: [{name: a, token: one-token-of-sixteen, previous_token: '', scopes: [read]}]",
            "server.admin.tokens[0].previous_token",
        ),
    ],
)
def test_an_empty_token_is_refused(refusal: Refusal, admin: str, setting: str) -> None:
    """It would look as if a token were asked for."""
    (found,) = refusal(f"server: {{admin: {{{admin}}}}}\n", minimal=True)
    assert (found.setting, found.message) == (setting, "The secret is empty.")


def test_a_token_is_what_a_header_can_bring(load_text: Load) -> None:
    """The variable that a Secret was made into often ends with the line end of a file: nobody could log in."""
    environ = {"TOKEN": " one-token-of-sixteen\n"}
    admin = load_text('server: {admin: {token: "${env:TOKEN}"}}\n', environ, minimal=True)
    token = admin.config.server.admin.token
    assert token is not None
    assert token.get_secret_value() == "one-token-of-sixteen"

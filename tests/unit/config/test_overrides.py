"""Environment variables override the file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.config.load.finding import Finding
from app.config.load.loader import Loaded, load

Load = Callable[..., Loaded]
Refusal = Callable[..., list[Finding]]


def test_a_variable_overrides_the_file_and_the_defaults(load_text: Load) -> None:
    """The same file runs in every environment."""
    loaded = load_text(
        "server: {events: {port: 1}}\ninstallation: file\n",
        {
            "SKYBRIDGE_SERVER__EVENTS__PORT": "9090",
            "SKYBRIDGE_SERVER__ADMIN__TOKEN": "$not{a}reference",
            "SKYBRIDGE_INSTALLATION": "shop",
            "SKYBRIDGE_TIMEOUTS__PUBLISH": "3s",
        },
        minimal=True,
    )
    config = loaded.config
    assert (config.server.events.port, config.installation, config.timeouts.publish) == (
        9090,
        "shop",
        3,
    )
    assert config.server.admin.token is not None
    assert config.server.admin.token.get_secret_value() == "$not{a}reference"


def test_without_a_file_the_environment_suffices() -> None:
    """`SKYBRIDGE_SERVER__EVENTS__PORT=0 skybridge serve` needs no file."""
    environ = {"SKYBRIDGE_SERVER__EVENTS__PORT": "0", "SKYBRIDGE_BROKERS__LOG__PATH": "/srv/log"}
    config = load(None, environ).config
    assert config.server.events.port == 0
    assert str(config.brokers["log"].path) == "/srv/log"  # type: ignore[union-attr]


def test_names_fit_whatever_their_letters(load_text: Load) -> None:
    """A broker named my-Log.1 cannot be spelt in a variable."""
    loaded = load_text(
        "version: 1\nbrokers: {my-Log.1: {kind: embedded, path: a}}\n",
        {"SKYBRIDGE_BROKERS__MY_LOG_1__PARTITIONS": "3"},
    )
    assert loaded.config.brokers["my-Log.1"].partitions == 3  # type: ignore[union-attr]


def test_lists_are_stepped_into_by_number_and_written_as_json(load_text: Load) -> None:
    """A list has no names."""
    loaded = load_text(
        "routes: [{name: a, to: {broker: log, topic: t}}]\n",
        {
            "SKYBRIDGE_ROUTES__0__TO__TOPIC": "u",
            "SKYBRIDGE_WEBHOOKS__ALLOW_PRIVATE": '["10.0.0.0/8", "x.internal"]',
        },
        minimal=True,
    )
    assert loaded.config.routes[0].to[0].topic == "u"
    assert loaded.config.webhooks.allow_private == ("10.0.0.0/8", "x.internal")


ADDED = {
    "SKYBRIDGE_SERVER__ADMIN__TOKENS__{}__NAME": "prometheus",
    "SKYBRIDGE_SERVER__ADMIN__TOKENS__{}__SCOPES": '["metrics"]',
    "SKYBRIDGE_SERVER__ADMIN__TOKENS__{}__TOKEN": "token-of-prometheus",
}


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("[]", ["prometheus"]),
        ("[{name: a, token: t, scopes: [read]}]", ["a", "prometheus"]),
        (None, ["prometheus"]),
    ],
)
def test_the_number_behind_the_last_item_adds_one(
    load_text: Load, written: str | None, names: list[str]
) -> None:
    """A chart gives Prometheus a token beside those of the file."""
    admin = "" if written is None else f"server: {{admin: {{tokens: {written}}}}}\n"
    environ = {name.format(len(names) - 1): text for name, text in ADDED.items()}
    tokens = load_text(admin, environ, minimal=True).config.server.admin.tokens
    assert [each.name for each in tokens] == names
    assert tokens[-1].scopes == ("metrics",)


@pytest.mark.parametrize(
    "variable",
    [
        "SKYBRIDGE_SERVER",
        "SKYBRIDGE_PORT",
        "SKYBRIDGE_PORT_8080_TCP_ADDR",
        "SKYBRIDGE_SERVICE_HOST",
        "OTHER__X",
        "SKYBRIDGEX__Y",
    ],
)
def test_what_is_meant_for_others_is_left_alone(load_text: Load, variable: str) -> None:
    """The client verbs read SKYBRIDGE_SERVER; Kubernetes sets SKYBRIDGE_PORT for a service."""
    assert (
        load_text("", {variable: "tcp://10.0.0.1:80"}, minimal=True).config.server.events.port
        == 8080
    )


@pytest.mark.parametrize(
    ("variable", "finding"),
    [
        (
            "SKYBRIDGE_SERVR__EVENTS__PORT",
            "error servr: The setting is unknown. Cure: Did you mean server?",
        ),
        (
            "SKYBRIDGE_SERVER__EVENTS__PROT",
            "error server.events.prot: The setting is unknown. Cure: Did you mean port?",
        ),
        (
            "SKYBRIDGE_SERVER__EVENTS__PORT",
            "error server.events.port: The value is not a whole number. Cure: Write a whole number, such as 8.",
        ),
        (
            "SKYBRIDGE_ROUTES__7__NAME",
            "error routes: The environment variable SKYBRIDGE_ROUTES__7__NAME matches no setting. Cure: Correct the name of the variable.",
        ),
        (
            "SKYBRIDGE_SERVER____PORT",
            "error server: The environment variable SKYBRIDGE_SERVER____PORT matches no setting. Cure: Correct the name of the variable.",
        ),
    ],
)
def test_a_wrong_variable_is_named(refusal: Refusal, variable: str, finding: str) -> None:
    """A misspelt override must not be ignored: the operator believes it is in force."""
    findings = refusal("routes: []\n", {variable: "wrong"}, minimal=True)
    assert [str(each) for each in findings] == [f"{variable}: {finding}"]


def test_more_than_ten_items_can_be_added(load_text: Load) -> None:
    """By their numbers: as texts 10 is before 2, and fitted no setting."""
    environ = {f"SKYBRIDGE_ROUTES__{n}__NAME": f"r{n}" for n in range(12)}
    environ |= {f"SKYBRIDGE_ROUTES__{n}__TO": '{"broker": "log", "topic": "t"}' for n in range(12)}
    routes = load_text("", environ, minimal=True).config.routes
    assert [each.name for each in routes] == [f"r{n}" for n in range(12)]


def test_a_hidden_value_is_named_by_the_variable_of_its_setting(load_text: Load) -> None:
    """Its sections come from several variables, and a message named one of the others."""
    environ = {
        "SKYBRIDGE_SERVER__ADMIN__TOKEN": "the-token-of-the-administrator",
        "SKYBRIDGE_SERVER__ADMIN__HOST": "127.0.0.9",
    }
    loaded = load_text("", environ, minimal=True)
    for name, value in environ.items():
        assert loaded.redacted(f"it is {value}") == f"it is ${{env:{name}}}"

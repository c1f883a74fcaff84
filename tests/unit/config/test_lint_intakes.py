"""Intakes: what cannot work, and what would let anybody in, is refused with its place and its cure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.config.diff.shown import view_of
from app.config.load.finding import Finding

Lint = Callable[..., list[str]]
ROUTES = "routes: [{name: hooks, to: {broker: log, topic: a}}]\n"
EVENT = "event: {id: '{header:x-id}', type: t, source: /s}"


def intake(text: str, more: str = "") -> str:
    return f"{ROUTES}{more}intakes: [{{name: in, {text}}}]\n"


@pytest.mark.parametrize(
    "text",
    [
        "preset: github, secret: s, route: hooks, quota: {events: 50/s, burst: 500}",
        "preset: gitlab, secret: s, previous_secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        f"verify: {{kind: none}}, {EVENT}",
        f"verify: {{kind: basic, username: u, password: p}}, {EVENT}, max_age: 0s",
    ],
)
def test_a_good_intake_is_clean(lint_text: Lint, text: str) -> None:
    assert lint_text(intake(text)) == []


@pytest.mark.parametrize(
    ("text", "setting", "message"),
    [
        ("preset: github, secret: s, route: hoks", "route", "The route 'hoks' does not exist"),
        ("preset: standard_webhooks, secret: s", "secret", "The key does not begin with whsec_"),
        ("preset: stripe, secret: s, max_age: 0s", "max_age", "The value would refuse every signed time"),
        (f"verify: {{kind: standard_webhooks, secret: s}}, {EVENT}", "verify.secret", "The key does not begin with whsec_, whsk_ or whpk_."),
        (
            "verify: {kind: none}, event: {id: '{header:x}', type: 't.{pointer:}', source: /s}",
            "event.type", "{pointer:} is no placeholder",
        ),
        ("verify: {kind: none}, event: {id: '1', type: t, source: /s}", "event.id", "The value is the same for every event"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_an_error(
    lint_text: Lint, text: str, setting: str, message: str
) -> None:
    (found,) = lint_text(intake(text))
    assert found.startswith(f"error intakes[0].{setting}: {message}")


def test_nothing_is_verified_on_loopback_alone(lint_text: Lint) -> None:
    """Else everybody on the network could send as anybody."""
    text = intake(f"verify: {{kind: none}}, {EVENT}", "server: {events: {host: 0.0.0.0}}\n")
    found = [each for each in lint_text(text) if "intakes" in each]
    assert len(found) == 1
    assert found[0].startswith(
        "error intakes[0].verify.kind: The kind none accepts every request, and other machines can reach the events listener on "
    )


OFF_LOOPBACK = "server: {events: {host: 0.0.0.0, access: producers}}\n"


def test_an_intake_may_be_the_only_way_in(lint_text: Lint) -> None:
    """No producer is needed where only publishers of webhooks send."""
    assert lint_text(intake("preset: github, secret: s", OFF_LOOPBACK)) == []


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("preset: gitlab, secret: s", True),
        ("preset: gitlab, secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", False),
        (f"verify: {{kind: basic, username: u, password: p}}, {EVENT}", True),
        (f"verify: {{kind: hmac_sha256, header: h, secret: s}}, {EVENT}", False),
    ],
)
def test_a_key_in_clear_is_a_warning(lint_text: Lint, text: str, warned: bool) -> None:
    found = lint_text(intake(text, OFF_LOOPBACK))
    assert [each.partition(":")[0] for each in found] == ["warning intakes[0]"] * warned


def test_two_of_a_name_are_an_error(lint_text: Lint) -> None:
    one = "{name: in, preset: github, secret: s}"
    (found,) = lint_text(f"{ROUTES}intakes: [{one}, {one}]\n")
    assert found.startswith("error intakes[1].name: The name 'in' is already used")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preset: github", "The preset github needs a secret"),
        ("preset: github, secret: s, verify: {kind: none}", "preset github has its own verify and event"),
        (f"preset: github, secret: s, {EVENT}", "preset github has its own verify and event"),
        ("verify: {kind: none}", "The intake has no preset, and it lacks verify or event"),
        (f"verify: {{kind: none}}, {EVENT}, secret: s", "The setting secret works only with a preset"),
        ("preset: githup, secret: s", "The value is not one of the choices"),
        (f"verify: {{kind: md5}}, {EVENT}", "The kind is unknown"),
        (f"verify: {{kind: hmac_sha256, header: h, secret: s, signed: 'x'}}, {EVENT}", "The setting signed has no effect without timestamp, because then only the body is signed"),
        (
            f"verify: {{kind: hmac_sha256, header: h, secret: s, timestamp: t, signed: '{{body}}'}}, {EVENT}",
            "The setting signed must contain {timestamp} once and {body} once",
        ),
        (f"verify: {{kind: api_key, header: 'a b', secret: s}}, {EVENT}", "The value has the wrong form"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_each_other_are_refused(
    refusal: Callable[..., list[Finding]], text: str, message: str
) -> None:
    (found,) = refusal(intake(text), minimal=True)
    assert message in found.message


def test_no_finding_and_no_shown_configuration_has_a_secret(
    refusal: Callable[..., list[Finding]], load_text: Callable[..., object]
) -> None:
    text = intake("preset: github, secret: not-for-eyes, previous_secret: nor-this")
    shown = str(view_of(load_text(text, minimal=True)).shown)  # type: ignore[arg-type]
    assert "intakes" in shown
    assert "not-for-eyes" not in shown
    assert "nor-this" not in shown
    misspelt = intake(f"verify: {{kind: api_key, sekret: not-for-eyes}}, {EVENT}")
    assert "not-for-eyes" not in str(refusal(misspelt, minimal=True))


KAFKA = """\
version: 1
store: {kind: sqlite, path: /srv/skybridge/store.db}
brokers: {log: {kind: kafka, bootstrap_servers: ["127.0.0.1:9092"], in_flight: {bytes: 128MiB}, topics: {create: true}}}
"""


def on_kafka(lint_text: Lint, text: str) -> list[str]:
    return [each for each in lint_text(KAFKA + text, minimal=False) if "body" in each]


def test_a_body_that_fits_no_record_is_told_with_what_fits(lint_text: Lint) -> None:
    """GitHub's 25 MB fit into the embedded log, and not into Kafka's default."""
    text = intake("preset: github, secret: s")
    assert lint_text(text) == []
    (found,) = on_kafka(lint_text, text)
    assert found.startswith("warning intakes[0].max_body: The limit is 26214400 bytes")
    assert "a record of broker 'log' has at most 1000000" in found
    assert "brokers.log.max_record" in found
    assert on_kafka(lint_text, intake("preset: github, secret: s, max_body: 1MB")) == []
    assert on_kafka(lint_text, intake("preset: stripe, secret: s")) == []


def test_bodies_have_to_fit_where_they_go_alone(lint_text: Lint) -> None:
    two = KAFKA.replace("brokers: {", "brokers: {other: {kind: embedded, path: /srv/log}, ")
    routes = "routes: [{name: a, to: {broker: other, topic: a}}, {name: b, to: {broker: log, topic: b}}]\n"
    for route, count in (("a", 0), ("b", 1)):
        text = f"intakes: [{{name: in, preset: github, secret: s, route: {route}}}]\n"
        found = lint_text(two + routes + text, minimal=False)
        assert len([each for each in found if "max_body" in each]) == count


def test_the_bound_of_all_bodies_has_to_fit_too_where_it_is_set(lint_text: Lint) -> None:
    assert on_kafka(lint_text, ROUTES) == []
    (found,) = on_kafka(lint_text, ROUTES + "limits: {body: 4MiB}\n")
    assert found.startswith("warning limits.body: The limit is 4194304 bytes")
    limits = "limits: {{body: {0}, in_flight_bytes: 256MiB}}\n"
    assert lint_text(ROUTES + limits.format("64MiB")) == []
    (found,) = lint_text(ROUTES + limits.format("65MiB"))
    assert found.startswith("warning limits.body: The limit is 68157440 bytes")
    assert "a record of broker 'log' has at most 67108864" in found


def test_the_bounds_of_what_is_received_and_in_flight_hold_the_largest_body(
    lint_text: Lint,
) -> None:
    text = intake(
        "preset: github, secret: s", "limits: {receiving: 8MiB, in_flight_bytes: 16MiB}\n"
    )
    first, second = sorted(lint_text(text))
    assert first.startswith(
        "error limits.receiving: The limit limits.receiving is below intakes[0].max_body"
    )
    assert second.startswith(
        "warning limits.in_flight_bytes: The limit is below intakes[0].max_body, which is 26214400"
    )

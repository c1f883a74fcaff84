"""What differs between two configurations, by name; and that nothing secret is shown or digested."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.check.source import ConfigSource
from app.config.diff.difference import Difference, difference, effect_of
from app.config.diff.shown import digest_of, view_of, view_of_shown
from app.config.load.loader import Loaded
from app.config.model.config import Config

FILE = """
server: {admin: {token: "${env:TOKEN}"}}
routes:
  - {name: orders, filters: [{exact: {type: order}}], to: {broker: log, topic: "${env:TOPIC}"}}
  - {name: every.thing, to: {broker: log, topic: events}}
subscriptions:
  - id: billing.eu
    source: {broker: log, topics: [events]}
    sink: https://billing.example/hook
    signing: {secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}
  - {id: audit, source: {broker: log, topics: [events]}, sink: https://audit.example/hook, reply: orders}
  - {id: copy, source: {broker: log, topics: [events]}, sink: {broker: log, topic: copies}}
"""
ENVIRON = {"TOKEN": "admin-token-in-clear", "TOPIC": "orders"}

Differ = Callable[..., Difference]


@pytest.fixture
def differ(load_text: Callable[..., Loaded]) -> Differ:
    """Between FILE and FILE with some text replaced, or something behind it."""

    def found(*replaced: tuple[str, str], behind: str = "") -> Difference:
        old = view_of(load_text(FILE, ENVIRON, minimal=True))
        text = FILE
        for before, after in replaced:
            assert before in text
            text = text.replace(before, after)
        return difference(old, view_of(load_text(text + behind, ENVIRON, minimal=True)))

    return found


def test_the_same_text_differs_in_nothing(differ: Differ) -> None:
    assert differ() == Difference(())


@pytest.mark.parametrize(
    ("before", "after", "said", "restarted"),
    [
        ("{type: order}", "{type: sale}", 'routes.orders.filters: [{"exact":{"type":"order"}}] -> [{"exact":{"type":"sale"}}]',
         ("audit",)),
        ("topic: events}}\n", "topic: all}}\n", 'routes.every.thing.to: [{"broker":"log","topic":"events"}] -> [{"broker":"log","topic":"all"}]', ()),
        ("ILPZ", "ILPY", "subscriptions.billing.eu.signing.secret: changed; its value is not shown",
         ("billing.eu",)),
        ("id: audit", "id: audits", "subscriptions.audit: removed", ()),
    ],
)  # fmt: skip
def test_a_change_is_named_and_begins_only_what_it_touches_anew(
    differ: Differ, before: str, after: str, said: str, restarted: tuple[str, ...]
) -> None:
    """A subscription whose settings are the same must not be disturbed at all."""
    found = differ((before, after))
    assert str(found.changes[0]) == said
    assert found.restarted == restarted
    assert found.restarts == ()


def test_what_all_webhooks_share_begins_them_anew_and_no_mirror(differ: Differ) -> None:
    found = differ(behind="timeouts: {webhook_dns: 1s}\n")
    assert found.restarted == ("billing.eu", "audit")


def test_a_reply_is_built_on_the_route_that_takes_what_does_not_match(
    load_text: Callable[..., Loaded],
) -> None:
    schema = 'schema: {file: s.json, on_invalid: {route: every.thing}}, to: {broker: log, topic: "${env:TOPIC}"}'
    text = FILE.replace('to: {broker: log, topic: "${env:TOPIC}"}', schema)
    old = view_of(load_text(text, ENVIRON, minimal=True))
    changed = text.replace("topic: events}}\n", "topic: all}}\n")
    new = view_of(load_text(changed, ENVIRON, minimal=True))
    assert difference(old, new).restarted == ("audit",)


def test_what_runs_cannot_take_up_is_named(differ: Differ) -> None:
    found = differ(
        ("{admin: {token", "{events: {port: 9}, admin: {token"),
        behind="timeouts: {publish: 3s}\nlimits: {body: 2MiB}\n",
    )
    assert [each.setting for each in found.restarts] == ["server.events.port", "timeouts.publish"]
    assert "limits.body" in {each.setting for each in found.changes}


def test_the_order_of_routes_counts(differ: Differ) -> None:
    """The first match wins."""
    first, second = FILE.splitlines()[3:5]
    found = differ((f"{first}\n{second}", f"{second}\n{first}"))
    assert [(each.setting, each.what) for each in found.changes] == [
        ("routes.every.thing", "moved"),
        ("routes.orders", "moved"),
    ]


def test_a_route_that_needs_a_producer_of_its_own_needs_a_restart(differ: Differ) -> None:
    """Rule 1: what asks for less than all replicas has connections of its own."""
    route = "\n  - {name: quick, durability: relaxed, to: {broker: log, topic: q}}\nsubscriptions:"
    found = differ(("\nsubscriptions:", route))
    assert [(each.setting, each.what) for each in found.restarts] == [("routes.quick", "added")]


def test_no_value_of_a_secret_or_reference_is_shown(load_text: Callable[..., Loaded]) -> None:
    shown = json.dumps(view_of(load_text(FILE, ENVIRON, minimal=True)).shown)
    assert "admin-token" not in shown
    assert "whsec_" not in shown
    assert '"${env:TOKEN}"' in shown
    assert '"topic": "${env:TOPIC}"' in shown


def test_the_digest_is_of_what_is_shown(load_text: Callable[..., Loaded]) -> None:
    """Pods whose ${env:HOSTNAME} differs have one digest; what differs otherwise has two."""

    def digest(text: str, environ: dict[str, str]) -> str:
        return digest_of(view_of(load_text(text, environ, minimal=True)).shown)

    same = digest(FILE, ENVIRON)
    assert digest(FILE + "# a remark\n", {**ENVIRON, "TOPIC": "sales"}) == same
    assert digest(FILE + "limits: {body: 2MiB}\n", ENVIRON) != same


def test_a_running_one_is_compared_as_far_as_it_is_shown(load_text: Callable[..., Loaded]) -> None:
    loaded = load_text(FILE, ENVIRON, minimal=True)
    told = json.loads(json.dumps(view_of(loaded).shown))
    other = view_of(load_text(FILE.replace("ILPZ", "ILPY"), ENVIRON, minimal=True))
    assert difference(view_of_shown(told), view_of_shown(other.shown)) == Difference(())


def test_a_section_that_a_variable_gives_keeps_its_name_and_tells_no_more(
    load_text: Callable[..., Loaded],
) -> None:
    """SKYBRIDGE_ROUTES__0={...}: the plan of such a service ended in a trace."""
    route = (
        '{"name": "orders", "to": {"broker": "log", "topic": "hidden"}, "durability": "relaxed"}'
    )
    billing = (
        '{"id": "sales", "source": {"broker": "log", "topics": ["t"]}, "sink": "https://hidden/"}'
    )
    given = {**ENVIRON, "SKYBRIDGE_ROUTES__0": route, "SKYBRIDGE_SUBSCRIPTIONS__0": billing}
    with_it = view_of(load_text(FILE, given, minimal=True))
    without = view_of(load_text(FILE, ENVIRON, minimal=True))
    told = view_of_shown(json.loads(json.dumps(with_it.shown)))
    for pair in ((without, with_it), (told, view_of_shown(without.shown))):
        said = [str(each) for each in difference(*pair).changes]
        assert "subscriptions.sales: added" in said or "subscriptions.sales: removed" in said
        assert any(each.startswith("routes.orders.to") for each in said)
        assert "hidden" not in "".join(said)


def test_a_secret_of_a_file_that_rotates_is_no_change(
    load_text: Callable[..., Loaded], tmp_path: Path
) -> None:
    """Its users read it again by themselves: nothing has to restart."""
    file = tmp_path / "secret"
    text = FILE.replace("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", f'"${{file:{file}}}"')
    views = []
    for secret in (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_AfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ):
        file.write_text(secret)
        views.append(view_of(load_text(text, ENVIRON, minimal=True)))
    assert difference(*views) == Difference(())


@pytest.mark.parametrize("section", [*Config.model_fields])
def test_every_section_has_an_effect(section: str) -> None:
    """Whoever adds a section decides; without a word it needs a restart."""
    live = {
        "routes",
        "producers",
        "intakes",
        "subscriptions",
        "alerts",
        "limits",
        "log",
        "pipeline",
        "operator",
        "reload",
    }
    assert (effect_of(section) == "live") == (section in live)


def test_a_source_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "skybridge.yaml"
    file.write_text("version: 1\nbrokers: {log: {kind: embedded, path: ./log}}\n")
    source = ConfigSource(file, {})
    loaded, _ = source.judge(source.read())
    assert loaded.source == str(file)
    assert source.name == str(file)

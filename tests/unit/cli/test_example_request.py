"""What ``serve`` says to try is taken, whatever the routes ask for."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from app.bindings import http
from app.cli.example_request import example_command
from app.config.derived.kinds import guide_of
from app.config.load.loader import load
from pages import CHECKOUT

LOG = "version: 1\nbrokers: {log: {kind: embedded, path: ./log}}\n"
ROUTE = "routes: [{name: r, to: {broker: log, topic: t}, %s}]\n"


def pasted(text: str) -> tuple[str, list[tuple[str, str]], str]:
    """URL, headers and data of a curl."""
    words = shlex.split(text)
    assert words[:2] == ["curl", "-i"]
    headers = [tuple(words[n + 1].split(": ", 1)) for n, word in enumerate(words) if word == "-H"]
    return words[2], headers, words[words.index("-d") + 1]  # type: ignore[return-value]


@pytest.mark.parametrize(
    "route",
    [
        "filters: []",
        "filters: [{prefix: {type: com.example.order.}}]",
        "filters: [{prefix: {type: com.}}, {suffix: {type: .made}}]",
        'filters: [{all: [{exact: {subject: "it\'s Ü"}}, {prefix: {source: /shop}}]}]',
        "filters: [{any: [{exact: {type: a}}, {exact: {type: b}}]}]",
        "filters: [{sql: \"type = 'x' AND amount > 100\"}]",
        "filters: [{not: {prefix: {type: com}}}]",
        "key: {mapper: partitionkey, missing: reject}",
        "key: {mapper: from_request, missing: reject}",
        "key: {mapper: pointer, pointer: /order/id, missing: reject}",
        "key: {mapper: template, template: '{tenant}/{type}', missing: reject}",
        "key: {mapper: hash, attributes: [tenant], missing: reject}",
    ],
)
def test_the_printed_curl_is_taken(tmp_path: Path, route: str) -> None:
    """serve says what to try; it must not be answered 422."""
    file = tmp_path / "skybridge.yaml"
    file.write_text(LOG + ROUTE % route)
    assert_taken(file)


def test_the_printed_curl_is_taken_by_the_configuration_of_the_readme(tmp_path: Path) -> None:
    """It is the first one that anybody runs."""
    (text,) = re.findall(
        r"(?s)cat > shop\.yaml <<'END'\n(.*?)\nEND\n", (CHECKOUT / "README.md").read_text()
    )
    (tmp_path / "billing.secret").write_text("whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldY")
    file = tmp_path / "shop.yaml"
    file.write_text(text.replace("billing.secret", str(tmp_path / "billing.secret")))
    assert_taken(file)


def test_without_a_route_nothing_is_to_be_tried(tmp_path: Path) -> None:
    file = tmp_path / "skybridge.yaml"
    file.write_text(LOG)
    assert example_command(load(file, {}).config, "http://here") == ""


def test_the_example_is_not_a_request_that_a_limited_producer_may_not_send(tmp_path: Path) -> None:
    """For a producer with limited rights, the filters of a named route count."""
    producer = f"producers: [{{name: p, keys: ['sha256:{'0' * 64}'], may: {{types: ['com.*']}}}}]\n"
    access = "server: {events: {access: producers}}\n"
    file = tmp_path / "skybridge.yaml"
    file.write_text(
        LOG + ROUTE % "filters: [{sql: \"type = 'com.x' AND amount > 100\"}]" + producer + access
    )
    assert example_command(load(file, {}).config, "http://here") == ""


def assert_taken(file: Path) -> None:
    config = load(file, {}).config
    url, headers, data = pasted(example_command(config, "http://here:8080"))
    key = dict(headers).get("skybridge-key")
    name = url.removeprefix("http://here:8080/events").strip("/") or None
    (decoded,) = http.decode([(n.encode(), t.encode()) for n, t in headers], data.encode())
    journey = guide_of(config).explain(decoded, key.encode() if key else None, name)
    assert journey.refused is None

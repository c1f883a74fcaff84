"""``skybridge producers``, and what explain and test say of a producer: one verdict, wherever it is asked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from typer.testing import CliRunner, Result

from app.cli.commands import app

KEY = "sky_the-key-of-the-shop"
CONFIG = """
version: 1
server: {events: {access: producers}}
brokers: {log: {kind: embedded, path: ./log}}
store: {kind: sqlite, path: ./store.db}
routes:
  - {name: orders, filters: [{prefix: {type: order.}}], to: {broker: log, topic: orders}, key: {mapper: none}}
  - {name: keyed, filters: [{exact: {type: keyed}}], to: {broker: log, topic: keyed}}
  - {name: rest, to: {broker: log, topic: rest}, key: {mapper: none}}
producers:
  - name: shop
    keys: ["${file:./shop}"]
    may: {routes: [orders], sources: ["/shop/*"]}
  - name: till
    keys: ["sky_the-key-of-the-till"]
    header: x-api-key
  - {name: desk, keys: ["sky_the-key-of-the-desk"], may: {keys: ["desk-*"]}}
  - name: warehouse
    jwt: {issuer: "https://id.example", audience: sky, match: {azp: warehouse}, jwks: ./jwks.json}
"""

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    signer = ECKey.generate_key("P-256", {"kid": "1", "use": "sig"})
    claims = {"iss": "https://id.example", "aud": "sky", "azp": "warehouse", "exp": 1 << 36}
    files = {
        "shop": KEY,
        "till": "sky_the-key-of-the-till\n",
        "other": "sky_of-nobody",
        "desk": "sky_the-key-of-the-desk",
        "jwks.json": json.dumps({"keys": [signer.as_dict(private=False)]}),
        "token": jwt.encode({"alg": "ES256", "kid": "1"}, claims, signer),
        "late": jwt.encode({"alg": "ES256", "kid": "1"}, {**claims, "exp": 1}, signer),
        "c.yaml": CONFIG,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return lambda *words: CliRunner().invoke(app, [*words])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["shop"], 0, "producer shop\n"),
        (["shop", "--source", "/shop/1", "--route", "orders"], 0, "producer shop\n"),
        (["shop", "--source", "/x"], 1, "Producer shop may not send source '/x'."),
        (["shop", "--route", "rest"], 1, "Producer shop may not use route 'rest'."),
        (["desk", "--key", "desk-1"], 0, "producer desk\n"),
        (["desk", "--key", "shop-1"], 1, "Producer desk may not write record key 'shop-1'."),
        (["till", "--header", "X-Api-Key"], 0, "producer till\n"),
        (["till"], 1, "of no producer"),
        (["other"], 1, "The key or token is of no producer."),
        (["token"], 0, "producer warehouse\n"),
        (["late"], 1, "The token has expired."),
    ],
)
def test_whose_a_credential_is(run: Run, words: list[str], code: int, said: str) -> None:
    """By the door that the service has; the credential itself is never shown."""
    found = run("producers", "test", *words, "--config", "c.yaml")
    assert (found.exit_code, said in found.output) == (code, True), found.output
    assert KEY not in found.output


def test_a_new_key_is_accepted_by_check(run: Run) -> None:
    """And no two are alike."""
    made = [run("producers", "key", "new").output.strip() for _ in range(2)]
    assert made[0] != made[1]
    Path("shop").write_text(made[0])
    assert run("check", "c.yaml").exit_code == 0
    assert json.loads(run("producers", "key", "new", "--json").output)["key"].startswith("sky_")
    assert os.linesep not in made[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--type", "order.made", "--source", "/shop/1"], None),
        (["--type", "order.made", "--source", "/x"], "may not send source '/x'"),
        (["--type", "other", "--source", "/shop/1"], "may not use route 'rest'"),
        (["--type", "other", "--source", "/shop/1", "--route", "orders"], "Route orders does not match"),
        (["--type", "other", "--source", "/shop/1", "--route", "rest"], "may not use route 'rest'"),
        (["--type", "other", "--source", "/shop/1", "--route", "none"], "may not use route 'none'"),
    ],
)  # fmt: skip
def test_explain_and_test_say_what_the_door_says(
    run: Run, words: list[str], said: str | None
) -> None:
    """The filters of a named route are asked, as of everybody who is limited."""
    found = run("explain", *words, "--config", "c.yaml", "--producer", "shop")
    assert found.exit_code == (0 if said is None else 1)
    assert said is None or said in found.output
    given = dict(zip(words[::2], words[1::2], strict=True))
    case = {
        "name": "one",
        "producer": "shop",
        "event": {"type": given["--type"], "source": given["--source"]},
        "expect": {"route": "orders"} if said is None else {"refused": 422 if "match" in said else "not-allowed"},
    }  # fmt: skip
    if "--route" in given:
        case["route"] = given["--route"]
    Path("cases.yaml").write_text(json.dumps({"configuration": "c.yaml", "cases": [case]}))
    tested = run("test", "cases.yaml")
    assert tested.exit_code == 0, tested.output


@pytest.mark.parametrize(("key", "allowed"), [("desk-1", True), ("shop-1", False), (None, True)])
def test_explain_and_test_say_which_record_keys_a_producer_may_write(
    run: Run, key: str | None, allowed: bool
) -> None:
    words = [] if key is None else ["--key", key]
    found = run("explain", "--type", "keyed", "--config", "c.yaml", "--producer", "desk", *words)
    assert found.exit_code == (0 if allowed else 1), found.output
    assert ("may not write record key 'shop-1'" in found.output) is not allowed
    case = {
        "name": "one",
        "producer": "desk",
        "event": {"type": "keyed"},
        "expect": {"key": key} if allowed else {"refused": "not-allowed"},
    }
    if key is not None:
        case["key"] = key
    Path("cases.yaml").write_text(json.dumps({"configuration": "c.yaml", "cases": [case]}))
    tested = run("test", "cases.yaml")
    assert tested.exit_code == 0, tested.output


def test_a_producer_that_there_is_not_is_named(run: Run) -> None:
    found = run("explain", "--type", "t", "--config", "c.yaml", "--producer", "shopp")
    assert found.exit_code != 0
    assert "The producer 'shopp' does not exist" in str(found.exception)

"""Only a request that its publisher has signed is verified, and not for long."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import publishers
from app.errors import SetupError
from app.intakes.arrival import IntakeRequest
from app.intakes.compiled import compile_intake, compile_verifiers, demand_verified, secrets_of
from app.intakes.verification import Unverified
from app.model.intake import Intake
from publishers import KEY, SECRET, SignedRequest

NOW = 1_800_000_000.0
PAYLOAD = {"a": 1}
EVENT = {"id": "{header:x-id}", "type": "t", "source": "/s"}


def intake(**settings: Any) -> Intake:
    if "verify" in settings:
        settings["event"] = EVENT
    return Intake.model_validate({"name": "in", **settings})


def judge(settings: Intake, sent: SignedRequest, now: float = NOW) -> str:
    """ "verified", or how it is not."""
    secrets = [secret.get_secret_value() for secret in secrets_of(settings)]
    verifiers = compile_verifiers(compile_intake(settings), secrets, settings.max_age)
    try:
        demand_verified(verifiers, IntakeRequest(sent.pairs, sent.body), now)
    except Unverified as error:
        return error.code
    return "verified"


PRESETS = {
    "github": (SECRET, publishers.github(PAYLOAD), "x-hub-signature-256", False),
    "gitlab": (SECRET, publishers.gitlab(PAYLOAD), "x-gitlab-token", False),
    "stripe": (SECRET, publishers.stripe(PAYLOAD, NOW), "stripe-signature", True),
    "slack": (SECRET, publishers.slack(PAYLOAD, NOW), "x-slack-signature", True),
    "shopify": (SECRET, publishers.shopify(PAYLOAD), "x-shopify-hmac-sha256", False),
    "standard_webhooks": (KEY, publishers.standard(PAYLOAD, NOW), "webhook-signature", True),
}
NAMES = sorted(PRESETS)
SIGNING = [name for name in NAMES if name != "gitlab"]
TIMED = [name for name in NAMES if PRESETS[name][3]]
OTHER = {
    True: "whsec_" + base64.b64encode(b"another key, of as many bytes as it").decode(),
    False: "x",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_request_as_its_publisher_documents_it_is_verified(name: str) -> None:
    secret, sent, _, _ = PRESETS[name]
    assert judge(intake(preset=name, secret=secret), sent) == "verified"


@pytest.mark.parametrize("name", NAMES)
def test_while_a_secret_is_rotated_both_are_good(name: str) -> None:
    secret, sent, _, _ = PRESETS[name]
    new = OTHER[secret == KEY]
    assert judge(intake(preset=name, secret=new, previous_secret=secret), sent) == "verified"


@pytest.mark.parametrize("name", NAMES)
def test_another_secret_is_refused(name: str) -> None:
    secret, sent, _, _ = PRESETS[name]
    assert judge(intake(preset=name, secret=OTHER[secret == KEY]), sent).startswith("wrong-")


@pytest.mark.parametrize("name", SIGNING)
def test_one_changed_byte_of_the_body_is_refused(name: str) -> None:
    secret, sent, _, _ = PRESETS[name]
    changed = sent._replace(body=sent.body + b" ")
    assert judge(intake(preset=name, secret=secret), changed) == "wrong-signature"


@pytest.mark.parametrize("name", NAMES)
def test_without_its_header_it_is_refused(name: str) -> None:
    secret, sent, header, _ = PRESETS[name]
    assert judge(intake(preset=name, secret=secret), sent.but(header, None)).startswith("missing-")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "mark", ["", ",", "sha256=", "v0=", "t=1,v1=", "=", "\u00fc", "v1,", "a" * 64]
)
def test_what_is_no_signature_is_refused(name: str, mark: str) -> None:
    secret, sent, header, _ = PRESETS[name]
    code = judge(intake(preset=name, secret=secret), sent.but(header, mark))
    assert code.startswith(("malformed-", "wrong-", "untimely-"))


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize(
    ("off", "code"),
    [
        (299, "verified"),
        (301, "untimely-signature"),
        (-299, "verified"),
        (-301, "untimely-signature"),
    ],
)
def test_a_signed_time_holds_for_five_minutes_either_way(name: str, off: float, code: str) -> None:
    """An old request that somebody has seen is worth nothing; clocks differ."""
    secret, sent, _, _ = PRESETS[name]
    assert judge(intake(preset=name, secret=secret), sent, NOW + off) == code


@pytest.mark.parametrize("name", TIMED)
def test_how_old_is_a_setting(name: str) -> None:
    secret, sent, _, _ = PRESETS[name]
    assert judge(intake(preset=name, secret=secret, max_age="10m"), sent, NOW + 599) == "verified"


@pytest.mark.parametrize("at", ["1e9", "-5", "", "99999999999999999999", "١٨٠", "1800000000.0"])
def test_a_time_that_is_none_is_refused(at: str) -> None:
    sent = publishers.slack(PAYLOAD, NOW).but("X-Slack-Request-Timestamp", at)
    assert judge(intake(preset="slack", secret=SECRET), sent) == "malformed-signature"


def test_the_example_of_githubs_documentation_is_verified() -> None:
    mark = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    sent = SignedRequest((("x-hub-signature-256", mark),), b"Hello, World!")
    assert judge(intake(preset="github", secret="It's a Secret to Everybody"), sent) == "verified"


def test_the_example_of_slacks_documentation_is_verified() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
        b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    mark = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    sent = SignedRequest(
        (("x-slack-request-timestamp", "1531420618"), ("x-slack-signature", mark)), body
    )
    settings = intake(preset="slack", secret="8f742231b10e8888abcd99yyyzzz85a5")
    assert judge(settings, sent, 1531420618.0) == "verified"


def test_stripe_may_sign_with_several_secrets_at_once() -> None:
    """Stripe rolls a secret: one signature of each, and a v0 that counts for nothing."""
    sent = publishers.stripe(PAYLOAD, NOW, "first", SECRET)
    assert judge(intake(preset="stripe", secret=SECRET), sent) == "verified"
    forged = sent.but("Stripe-Signature", f"t={int(NOW)},v0={publishers.hexed(SECRET, b'1.{}')}")
    assert judge(intake(preset="stripe", secret=SECRET), forged) == "malformed-signature"


def _mark(name: str) -> tuple[str, SignedRequest, str, str]:
    """Secret, request, header, and the good signature in it."""
    secret, sent, header, _ = ENTRIES[name]
    return secret, sent, header, dict(sent.pairs)[header.encode()].decode()


ENTRIES = PRESETS | {"gitlab": (KEY, publishers.standard(PAYLOAD, NOW), "webhook-signature", True)}
BAD = {
    "github": ["", "abc", "sha1=0", "sha256=", "sha256=abc", "sha256=" + "g" * 64, "sha512=" + "0" * 128, "="],
    "shopify": ["", "abc", "=", "\u00fc" * 44, "A" * 44],
    "slack": ["", "v0=", "v0=abc", "v1=" + "0" * 64, "v0"],
    "stripe": ["", "v1=", "v1=abc", "v0=abc", "v2=" + "0" * 64, "x", "=", "t=", "t=soon", "scheme=x"],
    "standard_webhooks": ["v1,abc", "v1,", "v1", "v1a,xyz", "v1a,QQ==", "v2,QQ==", "x", ",", "v1,\u00fc", "v1,A==="],
}  # fmt: skip
BAD["gitlab"] = BAD["standard_webhooks"]


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("before", [True, False])
def test_an_entry_that_is_no_signature_spoils_no_good_one(name: str, before: bool) -> None:
    """Standard Webhooks: unknown entries are skipped, so that senders may add to the header."""
    secret, sent, header, good = _mark(name)
    space = " " if name in {"gitlab", "standard_webhooks"} else ","
    for bad in BAD[name]:
        value = space.join([bad, good] if before else [good, bad])
        assert judge(intake(preset=name, secret=secret), sent.but(header, value)) == "verified", bad
    assert (
        judge(intake(preset=name, secret=secret), sent.but(header, space.join(BAD[name])))
        != "verified"
    )


@pytest.mark.parametrize("name", BAD)
def test_entries_that_are_no_signatures_do_not_count_as_such(name: str) -> None:
    """However many there are: the bound is of what has to be compared."""
    secret, sent, header, good = _mark(name)
    space = " " if name in {"gitlab", "standard_webhooks"} else ","
    short = [bad for bad in BAD[name] if len(bad) < 10 and bad != "v1a,QQ=="]
    value = space.join([*short * 10, good])
    assert judge(intake(preset=name, secret=secret), sent.but(header, value)) == "verified"


@pytest.mark.parametrize("name", BAD)
def test_a_header_of_signatures_may_come_as_several_fields(name: str) -> None:
    """One good signature is enough, in whichever field; a proxy may have joined them with commas."""
    secret, sent, header, good = _mark(name)
    for values in ([good, "abc"], ["abc", good], [f"abc, {good}"], [f"{good}, abc"]):
        headers = [pair for pair in sent.headers if pair[0].lower() != header]
        several = SignedRequest((*headers, *[(header, value) for value in values]), sent.body)
        assert judge(intake(preset=name, secret=secret), several) == "verified", values


@pytest.mark.parametrize("name", ["stripe", "standard_webhooks"])
def test_two_times_are_refused(name: str) -> None:
    """Which of them is signed would be a guess."""
    secret, sent, header, good = _mark(name)
    several = SignedRequest((*sent.headers, ("webhook-timestamp", str(int(NOW)))), sent.body)
    if name == "stripe":
        several = sent.but(header, f"{good},t={int(NOW) + 1}")
    assert judge(intake(preset=name, secret=secret), several) == "malformed-signature"


def test_gitlabs_signing_token_is_a_key_of_standard_webhooks() -> None:
    sent = publishers.standard(PAYLOAD, NOW)
    assert judge(intake(preset="gitlab", secret=KEY), sent) == "verified"
    assert judge(intake(preset="gitlab", secret=KEY), sent, NOW + 301) == "untimely-signature"


def test_gitlabs_secret_token_may_be_replaced_by_a_signing_token() -> None:
    """Both ways hold until the old one is taken out."""
    both = intake(preset="gitlab", secret=KEY, previous_secret=SECRET)
    assert judge(both, publishers.gitlab(PAYLOAD)) == "verified"
    assert judge(both, publishers.standard(PAYLOAD, NOW)) == "verified"
    assert judge(both, publishers.gitlab(PAYLOAD, token="x")) == "missing-signature"


HMAC = {"kind": "hmac_sha256", "header": "X-Mark", "secret": SECRET}


@pytest.mark.parametrize(
    ("options", "mark"),
    [
        ({}, publishers.hexed(SECRET, b"{}")),
        ({}, publishers.hexed(SECRET, b"{}").upper()),
        ({"prefix": "sha256="}, "sha256=" + publishers.hexed(SECRET, b"{}")),
        ({}, f"{'0' * 64}, {publishers.hexed(SECRET, b'{}')}"),
        ({"encoding": "base64"}, dict(publishers.shopify(b"{}").headers)["X-Shopify-Hmac-Sha256"]),
    ],
)
def test_an_hmac_may_be_written_in_several_ways(options: dict[str, str], mark: str) -> None:
    sent = SignedRequest((("x-mark", mark),), b"{}")
    assert judge(intake(verify={**HMAC, **options}), sent) == "verified"


def test_an_hmac_over_a_time_is_old_one_day() -> None:
    verify = {**HMAC, "timestamp": "X-At", "signed": "{timestamp}:{body}"}
    sent = SignedRequest(
        (("x-at", "1800000000"), ("x-mark", publishers.hexed(SECRET, b"1800000000:{}"))), b"{}"
    )
    assert judge(intake(verify=verify), sent) == "verified"
    assert judge(intake(verify=verify), sent, NOW + 301) == "untimely-signature"
    assert judge(intake(verify=verify), sent._replace(body=b"")) == "wrong-signature"


def test_an_empty_body_is_signed_as_an_empty_body() -> None:
    verify = {**HMAC, "timestamp": "x-at"}
    sent = SignedRequest(
        (("x-at", "1800000000"), ("x-mark", publishers.hexed(SECRET, b"1800000000."))), b""
    )
    assert judge(intake(verify=verify), sent) == "verified"


def test_more_signatures_than_anybody_sends_are_refused() -> None:
    """Each would be compared with each key."""
    sent = SignedRequest((("x-mark", ",".join(["0" * 64] * 33)),), b"{}")
    assert judge(intake(verify=HMAC), sent) == "malformed-signature"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("Bearer secret", "verified"),
        ("Bearer older", "verified"),
        ("secret", "wrong-credential"),
        ("Bearer secret ", "wrong-credential"),
        ("Bearer secre", "wrong-credential"),
        ("", "wrong-credential"),
    ],
)
def test_a_key_in_a_header_is_compared_as_a_whole(value: str, code: str) -> None:
    verify = {
        "kind": "api_key", "header": "Authorization", "prefix": "Bearer ", "secret": "secret",
        "previous_secret": "older",
    }  # fmt: skip
    assert judge(intake(verify=verify), SignedRequest((("authorization", value),), b"")) == code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("Basic " + base64.b64encode("shop:pässword".encode()).decode(), "verified"),
        ("basic  " + base64.b64encode("shop:pässword".encode()).decode(), "verified"),
        ("Basic " + base64.b64encode(b"shop:password").decode(), "wrong-credential"),
        ("Basic " + base64.b64encode(b"other:p").decode(), "wrong-credential"),
        ("Bearer x", "wrong-credential"),
        ("Basic", "wrong-credential"),
    ],
)
def test_a_user_name_and_a_password(value: str, code: str) -> None:
    verify = {"kind": "basic", "username": "shop", "password": "pässword"}
    assert judge(intake(verify=verify), SignedRequest((("authorization", value),), b"")) == code


def test_a_repeated_credential_is_refused() -> None:
    """Which one a proxy in front has looked at nobody knows."""
    verify = {"kind": "api_key", "secret": "secret"}
    sent = SignedRequest((("x-api-key", "secret"), ("x-api-key", "secret")), b"")
    assert judge(intake(verify=verify), sent) == "wrong-credential"


def test_nothing_is_verified_where_nothing_is_asked() -> None:
    assert judge(intake(verify={"kind": "none"}), SignedRequest((), b"")) == "verified"


@pytest.mark.parametrize("name", NAMES)
def test_a_refusal_repeats_no_secret_and_no_signature(name: str) -> None:
    secret, sent, header, _ = PRESETS[name]
    settings = intake(preset=name, secret=OTHER[secret == KEY])
    verifiers = compile_verifiers(
        compile_intake(settings), [OTHER[secret == KEY]], settings.max_age
    )
    with pytest.raises(Unverified) as error:
        demand_verified(verifiers, IntakeRequest(sent.pairs, sent.body), NOW)
    assert error.value.status == 401
    told = f"{error.value} {error.value.faults} {error.value.challenge}"
    mark = dict(sent.pairs)[header.encode()].decode()
    assert mark not in told
    assert mark.rpartition("=")[2][:20] not in told or len(mark.rpartition("=")[2]) < 20
    assert f'header="{header}"' in error.value.challenge


def test_a_secret_that_is_no_key_is_said_at_the_start() -> None:
    settings = intake(preset="standard_webhooks", secret="no key")
    with pytest.raises(SetupError) as error:
        compile_verifiers(compile_intake(settings), ["no key"], 300)
    assert error.value.setting == "secret"
    assert "no key" not in str(error.value)

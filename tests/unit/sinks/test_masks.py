"""Credentials of ours in what a target answers: however it writes them, nobody reads them in a quotation."""

from __future__ import annotations

import base64
import html
import json
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from app.bindings import kafka
from app.interfaces import DeliveryRequest, SinkAnswer
from app.model.message import Message, Partition
from app.model.secret import FileSecret
from app.sinks.credentials import (
    NoToken,
    OAuthCredentials,
    RequestCredentials,
    SecretCredentials,
    basic,
    bearer,
    in_header,
    in_query,
)
from app.sinks.masks import MAX_QUOTED, MIN_PART, Mask
from app.sinks.secrets import LiveSecret
from app.sinks.webhook import WebhookSink
from app.worker.attempts import answer_text as quoted
from worker_doubles import RecordingClient, a_subscription, an_event

PLAIN = "Zq7-tR4kXw9_mB2vLp8s"
ODD = "a\"b/c\\d%41 e&f<g'h+i=j\u00fc\U0001f600~k"
SHORT = "hunter2"
LONG = "eyJhbGciOiJIUzI1NiJ9." + "".join(chr(97 + n * n % 26) + str(n) for n in range(600))

ECHOES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in JSON": json.dumps,
    "in JSON with letters as they are": lambda secret: json.dumps(secret, ensure_ascii=False),
    "in JSON with slashes escaped": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "in JSON within JSON": lambda secret: json.dumps(json.dumps({"key": secret})),
    "in JSON, read as Latin-1": lambda secret: json.dumps(secret.encode().decode("latin-1")),
    "percent-encoded": lambda secret: quote(secret, safe=""),
    "percent-encoded twice": lambda secret: quote(quote(secret, safe=""), safe=""),
    "every byte percent-encoded": lambda secret: "".join(
        f"%{each:02x}" for each in secret.encode()
    ),
    "as a form": quote_plus,
    "in HTML": html.escape,
    "in base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "in base64 for URLs": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "in base64 behind a user": lambda secret: base64.b64encode(f"user:{secret}".encode()).decode(),
    "in base64 within": lambda secret: base64.b64encode(f"x{secret}, said".encode()).decode(),
    "in base64 within JSON": lambda secret: json.dumps(
        base64.b64encode(f"ab{secret}".encode()).decode()
    ).replace("/", "\\/"),
    "as form in base64": lambda secret: base64.b64encode(
        f"id:{quote_plus(secret)}".encode()
    ).decode(),
}


def longest_left(text: str, echo: str) -> int:
    """Characters in a row of an echo that stand in a text."""
    longest = 0
    for at in range(len(echo)):
        while at + longest < len(echo) and echo[at : at + longest + 1] in text:
            longest += 1
    return longest


@pytest.mark.parametrize("secret", [PLAIN, ODD, LONG])
@pytest.mark.parametrize("echo", ECHOES)
def test_a_secret_is_found_however_it_is_written(secret: str, echo: str) -> None:
    text = ECHOES[echo](secret)
    shown = Mask(secret)(f"no such key: {text} (at 7)")
    assert shown.startswith("no such key: ")
    assert shown.endswith(" (at 7)")
    assert longest_left(shown, text.strip('"')) <= 2 * MIN_PART


@pytest.mark.parametrize("secret", [PLAIN, LONG])
@pytest.mark.parametrize("echo", ["as it is", "in base64 behind a user", "percent-encoded twice"])
@pytest.mark.parametrize("part", [slice(0, 12), slice(0, -3), slice(40, 90), slice(-60, None)])
def test_a_part_of_it_is_found_too(secret: str, echo: str, part: slice) -> None:
    """Targets cut what they quote, at either end."""
    text = ECHOES[echo](secret)[part]
    if len(text) > 2 * MIN_PART + len(secret) // 16:
        assert longest_left(Mask(secret)(f"near '{text}"), text) <= 2 * MIN_PART + len(secret) // 16


@pytest.mark.parametrize("secret", ["x", "key", SHORT])
def test_a_short_one_is_hidden_too(secret: str) -> None:
    assert secret not in Mask(secret)(f"<{secret}>")


def test_a_secret_that_looks_like_the_mask_is_hidden_as_well() -> None:
    assert Mask("*" * 12)(f"<{'*' * 30}>").strip("<*>") == ""


@pytest.mark.parametrize(
    "said",
    ["", "ok", '{"error": "no such order \\"7\\" at 100 %"}', "caf\u00e9 &amp; co.", "\\u", "%"],
)
def test_what_holds_no_secret_stays_as_it_is(said: str) -> None:
    """Also where it is escaped: only what hides a secret is shown without its escapes."""
    assert Mask(PLAIN, ODD)(said) == said


def test_what_is_quoted_ends_neither_in_nor_before_a_mask_that_was_cut() -> None:
    """The bound of a quotation, and that of what is read, may fall anywhere into a secret."""
    for before in range(MAX_QUOTED - len(PLAIN) - 2, MAX_QUOTED + 2):
        body = b"." * before + PLAIN.encode() + b"!" * 100
        answer = Mask(PLAIN).masked_answer(SinkAnswer(400, body=body))
        assert len(answer.body) <= MAX_QUOTED
        assert longest_left(answer.body.decode(), PLAIN) == 0
        cut = Mask(PLAIN).masked_answer(SinkAnswer(400, body=body[:500]))
        assert longest_left(quoted(cut), PLAIN) < MIN_PART
    assert Mask().masked_answer(SinkAnswer(400, body=b"x" * 9_000)).body == b"x" * 9_000


def outgoing() -> DeliveryRequest:
    record = an_event(1)
    message = Message(record, Partition("orders", 0), "7", 7, 0, 1)
    return DeliveryRequest(message, kafka.decode(record), 9.0)


def fixed(text: str, write: Callable[[str], RequestCredentials]) -> SecretCredentials:
    return SecretCredentials(LiveSecret(FileSecret(text)), write)


@pytest.mark.parametrize(
    "credentials",
    [
        fixed(PLAIN, bearer),
        fixed(PLAIN, in_query),
        fixed(PLAIN, basic("user")),
        fixed(PLAIN, in_header("x-api-key")),
    ],
)
async def test_what_a_request_bore_is_masked_in_its_answer(credentials: SecretCredentials) -> None:
    """Whatever the credential, and wherever in the request it was."""
    shown = await credentials.current()
    said = " ".join([shown.url("https://b.example/"), *(value for _, value in shown.headers)])
    client = RecordingClient(SinkAnswer(400, body=said.encode()))
    answer = await WebhookSink(
        a_subscription(sink="https://b.example/"), client, credentials=credentials
    ).send(outgoing())
    assert PLAIN not in answer.body.decode()
    assert base64.b64encode(f"user:{PLAIN}".encode()) not in answer.body
    assert b"b.example" in answer.body


async def test_the_words_of_a_token_endpoint_are_for_those_who_look_and_not_for_the_log() -> None:
    """``detail`` is logged, ``body`` is quoted."""

    class Refused:
        async def __call__(self) -> str:
            raise NoToken("no token from https://id.example: 401", "ask Alice")

        def forget(self, token: str) -> None: ...

    sink = WebhookSink(
        a_subscription(), RecordingClient(), credentials=OAuthCredentials(Refused(), bearer)
    )
    answer = await sink.send(outgoing())
    assert (answer.fault, answer.detail) == ("token", "no token from https://id.example: 401")
    assert quoted(answer).endswith("401 ask Alice")


@pytest.mark.parametrize("digits", ["1" * 5_000, "0" * 5_000 + str(ord(PLAIN[0])), "0" * 5_000])
def test_a_reference_of_thousands_of_digits_is_masked_like_any_other(digits: str) -> None:
    """int() refuses so many, and the error ended the dispatcher (reliability S12)."""
    text = Mask(PLAIN)(f"&#{digits};{PLAIN[1:]} {PLAIN} {html.escape(PLAIN)}")
    assert PLAIN not in html.unescape(text.replace("&#" + "0" * 5_000, "&#"))
    assert PLAIN[1:] not in text


def test_many_parts_of_secrets_are_masked_in_time_that_grows_with_the_text() -> None:
    """An answer is masked on the loop, up to ``attempts.bodies``: 64 KiB of parts held it for half a second."""
    mask = Mask("s3cr3t-token-value")

    def seconds(size: int) -> float:
        text = "s3cr3t-t" * size
        begun = time.perf_counter()
        mask(text)
        return time.perf_counter() - begun

    assert min(seconds(16_000) for _ in range(3)) < 24 * min(seconds(2_000) for _ in range(3))

"""Signatures after Standard Webhooks: ours, the receiver's side of them, and what others make of both."""

from __future__ import annotations

import base64
import datetime as dt

import pytest
import standardwebhooks
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bindings.record import ContentMode, Decoded
from app.delivery.signing import (
    NAMES,
    joint_id,
    signature_values,
    signed_before,
    signer,
    webhook_id,
)
from app.delivery.verifying import MOST_SIGNATURES, verify
from app.event.value import CloudEvent
from app.model.signing_key import KeyKind, SigningKey, read_key, write_key
from ed25519_by_rfc import is_signed

SECRET = read_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLdMw")
OTHER = SigningKey(KeyKind.SECRET, b"o" * 32)
PRIVATE = SigningKey(KeyKind.PRIVATE, b"p" * 32)
IDENTITY = "msg_p5jXN8AQM9LWM0D4loKWxJek"
NOW = 1_614_265_330
BODY = b'{"test": 2432232314}'


def public_of(key: SigningKey) -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    made = Ed25519PrivateKey.from_private_bytes(key.raw[:32])
    return SigningKey(KeyKind.PUBLIC, made.public_key().public_bytes_raw())


def signed(*keys: SigningKey, body: bytes = BODY, at: int = NOW) -> list[tuple[str, str]]:
    values = signature_values([signer(key) for key in keys], IDENTITY, str(at), body)
    return list(zip(NAMES, values, strict=True))


def event(**attributes: str) -> Decoded:
    return Decoded(CloudEvent(attributes, None), ContentMode.BINARY, None, None)


def test_the_reference_library_signs_the_same():
    """HMAC has one result: not a byte may differ."""
    moment = dt.datetime.fromtimestamp(NOW, tz=dt.UTC)
    theirs = standardwebhooks.Webhook(write_key(SECRET)).sign(IDENTITY, moment, BODY.decode())
    assert dict(signed(SECRET))["webhook-signature"] == theirs


@given(body=st.binary(max_size=300), secret=st.binary(min_size=24, max_size=64))
def test_the_reference_library_verifies_what_we_sign(body, secret):
    """A receiver takes a library, not our word."""
    at = int(dt.datetime.now(tz=dt.UTC).timestamp())
    text = body.hex().encode()  # the library decodes bodies as UTF-8
    headers = dict(signed(SigningKey(KeyKind.SECRET, secret), body=b'"%b"' % text, at=at))
    receiver = standardwebhooks.Webhook(write_key(SigningKey(KeyKind.SECRET, secret)))
    assert receiver.verify(b'"%b"' % text, headers) == text.decode()


def test_the_reference_library_refuses_a_changed_body():
    at = int(dt.datetime.now(tz=dt.UTC).timestamp())
    receiver = standardwebhooks.Webhook(write_key(SECRET))
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        receiver.verify(BODY + b" ", dict(signed(SECRET, at=at)))


@given(body=st.text(max_size=200))
def test_we_verify_what_the_reference_library_signs(body):
    sender = standardwebhooks.Webhook(write_key(SECRET))
    moment = dt.datetime.fromtimestamp(NOW, tz=dt.UTC)
    headers = [
        ("Webhook-Id", "msg_1"),
        ("Webhook-Timestamp", str(NOW)),
        ("Webhook-Signature", sender.sign("msg_1", moment, body)),
    ]
    assert verify(headers, body.encode(), [SECRET], NOW).valid


@pytest.mark.parametrize("keys", [(SECRET,), (PRIVATE,), (OTHER, SECRET), (PRIVATE, SECRET)])
def test_each_key_gives_a_signature_and_any_of_them_verifies(keys):
    """Two at once while receivers change from the old to the new."""
    headers = signed(*keys)
    assert len(dict(headers)["webhook-signature"].split(" ")) == len(keys)
    for key in keys:
        held = public_of(key) if key.kind is KeyKind.PRIVATE else key
        assert verify(headers, BODY, [held], NOW).valid


def test_a_private_key_may_have_its_public_half_behind_it():
    """As libsodium writes it; a half of another key is a mistake."""
    whole = SigningKey(KeyKind.PRIVATE, PRIVATE.raw + public_of(PRIVATE).raw)
    assert signer(whole)(b"x", b"y") == signer(PRIVATE)(b"x", b"y")
    with pytest.raises(ValueError, match="another key"):
        signer(SigningKey(KeyKind.PRIVATE, PRIVATE.raw + b"q" * 32))
    with pytest.raises(ValueError, match="cannot sign"):
        signer(public_of(PRIVATE))


@pytest.mark.parametrize("key", [SECRET, PRIVATE])
def test_a_flipped_bit_anywhere_is_found(key):
    """Reliability 4.4: in the body, the identity, the time and the signature."""
    held = public_of(key) if key.kind is KeyKind.PRIVATE else key
    headers = signed(key)
    for place in range(len(BODY)):
        changed = bytearray(BODY)
        changed[place] ^= 1
        assert not verify(headers, bytes(changed), [held], NOW).valid
    for n, (name, value) in enumerate(headers):
        for place in range(len(value)):
            flipped = value[:place] + chr(ord(value[place]) ^ 1) + value[place + 1 :]
            changed_headers = [*headers[:n], (name, flipped), *headers[n + 1 :]]
            assert not verify(changed_headers, BODY, [held], NOW, tolerance=1e12).valid, flipped


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"webhook-id": None}, "webhook-id is missing"),
        ({"webhook-timestamp": None}, "webhook-timestamp is missing"),
        ({"webhook-signature": None}, "webhook-signature is missing"),
        ({"webhook-id": ""}, "webhook-id is empty"),
        ({"webhook-id": "x" * 600}, "longer than"),
        ({"webhook-timestamp": "soon"}, "not a whole number"),
        ({"webhook-timestamp": "-1"}, "not a whole number"),
        ({"webhook-timestamp": "9" * 5000}, "not a whole number"),
        ({"webhook-signature": "v2,abc"}, "no signature of scheme"),
        ({"webhook-signature": "v1,*"}, "not base64"),
        ({"webhook-signature": "v1,QQ== " * (MOST_SIGNATURES + 1)}, "more than"),
        ({"webhook-signature": "v1a,QQ=="}, "none of the signatures fits the kind"),
    ],
)
def test_a_header_that_is_missing_or_wrong_is_named(changed, why):
    headers = dict(signed(SECRET)) | changed
    given_headers = [(name, value) for name, value in headers.items() if value is not None]
    verdict = verify(given_headers, BODY, [SECRET], NOW)
    assert not verdict.valid
    assert why in verdict.why


def test_a_repeated_header_is_refused():
    """Two readers could take two different ones."""
    headers = signed(SECRET)
    assert verify([*headers, headers[0]], BODY, [SECRET], NOW).why == "webhook-id is repeated"


@pytest.mark.parametrize("key", [SECRET, PRIVATE])
@pytest.mark.parametrize(
    "bad", ["v1,abc", "v1a,xyz", "v1,", "v2,QQ==", "x", "v1,*", "v1a,QQ==", ","]
)
def test_an_entry_that_is_no_signature_spoils_no_good_one(key, bad):
    """Also many of them; and as a field of its own."""
    held = public_of(key) if key.kind is KeyKind.PRIVATE else key
    *others, (name, good) = signed(key)
    for value in (f"{bad} {good}", f"{good} {bad}", f"{good}, {bad}"):
        assert verify([*others, (name, value)], BODY, [held], NOW).valid
    assert verify([*others, (name, bad), (name, good)], BODY, [held], NOW).valid
    assert not verify([*others, (name, bad)], BODY, [held], NOW).valid


def test_entries_that_are_none_do_not_count_as_signatures():
    *others, (name, good) = signed(SECRET)
    value = " ".join(["v1,abc", "v3,QQ=="] * MOST_SIGNATURES + [good])
    assert verify([*others, (name, value)], BODY, [SECRET], NOW).valid


@pytest.mark.parametrize(
    ("offset", "valid"), [(-301, False), (-300, True), (0, True), (300, True), (301, False)]
)
def test_clocks_may_differ_by_five_minutes_either_way(offset, valid):
    assert verify(signed(SECRET), BODY, [SECRET], NOW + offset).valid is valid


def test_the_key_of_another_is_no_key():
    verdict = verify(signed(SECRET), BODY, [OTHER], NOW)
    assert not verdict.valid
    assert "key is another one" in verdict.why


def test_the_identity_is_of_source_and_id_together():
    """core 1.1: neither alone names an event; no two pairs may be joined to the same text."""
    assert webhook_id(event(source="/s", id="1")) == webhook_id(
        event(source="/s", id="1", type="t")
    )
    pairs = [("/s", "1"), ("/s", "2"), ("/s2", "1"), ("/s1", ""), ("/", "s1")]
    made = {webhook_id(event(source=source, id=name)) for source, name in pairs}
    assert len(made) == len(pairs)
    assert all("." not in name for name in made)
    assert webhook_id(event(source="/s", id="1")) == "msg_" + digest_of(b"2:/s1")


def digest_of(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()[:32]


def test_an_opaque_document_is_named_by_its_bytes():
    """It has no attributes that we could read (4.7)."""
    one = Decoded(
        CloudEvent({}, None),
        ContentMode.STRUCTURED,
        b"<event/>",
        "application/cloudevents+xml",
        (),
        True,
    )
    assert webhook_id(one) == "msg_" + digest_of(b"document:<event/>")


def test_keys_are_read_and_written_and_never_shown():
    for key in (SECRET, PRIVATE, public_of(PRIVATE)):
        assert read_key(write_key(key)) == key
        assert base64.b64encode(key.raw).decode() not in repr(key)
    assert signed_before("a", "1") == b"a.1."


@given(body=st.binary(max_size=300), seed=st.binary(min_size=32, max_size=32))
@settings(max_examples=25, deadline=None)
def test_the_arithmetic_of_the_rfc_verifies_v1a(body, seed):
    """An implementation that is no library's: ours and Node's are both OpenSSL."""
    key = SigningKey(KeyKind.PRIVATE, seed)
    headers = dict(signed(key, body=body))
    signature = base64.b64decode(headers["webhook-signature"].removeprefix("v1a,"))
    content = signed_before(IDENTITY, str(NOW)) + body
    public = public_of(key).raw
    assert is_signed(public, content, signature)
    assert not is_signed(public, content + b".", signature)
    assert not is_signed(public_of(PRIVATE).raw, content, signature)


def test_the_arithmetic_is_that_of_the_rfc():
    """RFC 8032 7.1, test 1 and 2: else it would be an opinion about itself."""
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    signature = bytes.fromhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b"
    )
    assert is_signed(public, b"", signature)
    public = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
    signature = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert is_signed(public, b"\x72", signature)


def test_several_events_have_one_identity_of_their_own():
    """Equal for the same events in the same order; never that of another number of them."""
    assert joint_id(["msg_a"]) == "msg_a"
    assert joint_id(["msg_a", "msg_b"]) == joint_id(["msg_a", "msg_b"])
    found = {joint_id(each) for each in (["a", "b"], ["b", "a"], ["a", "b", "c"], ["ab"])}
    assert len(found) == 4
    assert all("." not in each for each in found)

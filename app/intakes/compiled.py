"""An intake of the configuration, ready to be asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.delivery.verifying import VerificationFailed
from app.errors import Fault, SenderError, SetupError
from app.intakes.arrival import IntakeRequest
from app.intakes.mapping import Attributes, Mapper, compile_mapping
from app.intakes.presets import PRESETS, Challenge, Probe
from app.intakes.verification import (
    BasicLogin,
    HeaderKey,
    Hmac,
    Nothing,
    Scheme,
    StandardWebhooks,
    Unverified,
    Verifier,
)
from app.model.intake import (
    EventTemplates,
    Intake,
    Verify,
    VerifyApiKey,
    VerifyBasic,
    VerifyHmac,
    VerifyStandardWebhooks,
)
from app.model.secret import FileSecret

Verifiers = Sequence[tuple[Scheme, Verifier]]

MOST_IDENTITIES = 8  # events that one signed body may become within the window
REPEATED_BODY = "repeated-body"


class CompiledIntake(NamedTuple):
    """``scheme``   from a secret to the way to verify that goes with it.
    ``mapper``   from a request to the attributes of its event.
    ``field``, ``challenge``, ``probe``  as a preset has them.
    ``max_body``  most bytes of a body; 0: as for any request.
    """

    scheme: Callable[[str], Scheme]
    mapper: Mapper
    field: str = ""
    challenge: Challenge | None = None
    probe: Probe | None = None
    max_body: int = 0


def compile_intake(settings: Intake) -> CompiledIntake:
    """SetupError names the setting below the intake that cannot be compiled."""
    if settings.preset is not None:
        preset = PRESETS[settings.preset]
        mapper = preset.mapper(settings.name)
        most = max_body(settings)
        return CompiledIntake(
            preset.scheme, mapper, preset.field, preset.challenge, preset.probe, most
        )
    assert settings.verify is not None  # noqa: S101 - the model has seen to it
    assert settings.event is not None  # noqa: S101 - likewise
    scheme = _scheme(settings.verify)
    mapper = _mapper(settings.event)
    return CompiledIntake(lambda _secret: scheme, mapper, max_body=max_body(settings))


def max_body(settings: Intake) -> int:
    """Return the most bytes of a body; 0 where the bound of the listener is the bound."""
    own = 0 if settings.preset is None else PRESETS[settings.preset].max_body
    return settings.max_body or own


def secrets_of(settings: Intake) -> list[FileSecret]:
    """The current one first. None where nothing is verified."""
    verify = settings.verify
    match verify:
        case None:
            found = [settings.secret, settings.previous_secret]
        case VerifyBasic():
            found = [verify.password, verify.previous_password]
        case VerifyStandardWebhooks() | VerifyHmac() | VerifyApiKey():
            found = [verify.secret, verify.previous_secret]
        case _:
            found = []
    return [secret for secret in found if secret is not None]


def compile_verifiers(intake: CompiledIntake, secrets: Sequence[str], max_age: float) -> Verifiers:
    """One for each way to verify that the secrets have: while GitLab's token is replaced by a signing token,
    two. SetupError for a secret that is no key of its scheme, and for a scheme that no age would pass."""
    ways: dict[Scheme, list[str]] = {}
    for secret in secrets or [""]:
        ways.setdefault(intake.scheme(secret), []).append(secret)
    if max_age <= 0 and any(scheme.timed for scheme in ways):
        cure = "give it a duration above zero, such as 5m"
        raise SetupError("would refuse every signed time", setting="max_age", cure=cure)
    return [(scheme, scheme.verifier(own, max_age)) for scheme, own in ways.items()]


class Verified(NamedTuple):
    """A request that has shown that its sender has the secret.

    ``scheme``  the way by which it was verified.
    ``proved``  digest of what the signature covers; None where nothing is signed.
    ``ahead``   seconds by which the signed time is later than our clock.
    """

    scheme: Scheme
    proved: bytes | None = None
    ahead: float = 0.0


def demand_verified(verifiers: Verifiers, arrival: IntakeRequest, now: float) -> Verified:
    """Raises Unverified."""
    causes: list[Unverified] = []
    for scheme, verifier in verifiers:
        try:
            signed = verifier(arrival, now)
        except VerificationFailed as refused:
            causes.append(Unverified(refused, scheme))
        else:
            if signed is not None:
                return Verified(scheme, signed.digest, max(0.0, signed.at - now))
            proved = hashlib.sha256(arrival.body).digest() if scheme.signs else None
            return Verified(scheme, proved)
    raise causes[0]


class RepeatKey(NamedTuple):
    """How a repeat is recognised.

    ``identity``  where a time is signed, the digest of what is signed; elsewhere that of the event's source, type and
                  id, and of its data.
    ``group``     digest of what the sender has proved; where nothing is signed, the identity.
    """

    identity: bytes
    group: bytes


class RepeatedBody(SenderError):
    """One signed body came as more events than it may within ``window`` seconds: 429. ``wait``: seconds until it
    may come as another one."""

    def __init__(self, *, wait: float, window: float) -> None:
        detail = (
            f"The signature covers the body alone, and this body was accepted as {MOST_IDENTITIES} events with "
            f"other ids, sources or types within max_age, {window:g} s. "
            "Cure: if the publisher repeats equal bodies on purpose, set max_age: 0s at this intake."
        )
        faults = [Fault(REPEATED_BODY, detail)]
        super().__init__("Repeated body", status=429, code=REPEATED_BODY, faults=faults)
        self.wait = wait


def repeat_key(verified: Verified, body: bytes, data: bytes, attributes: Attributes) -> RepeatKey:
    """Return the key that a repeat of a request has too.

    Args:
        verified: how the request was verified.
        body: the bytes that came, which may be signed.
        data: the data of the event: the body without its content coding.
        attributes: those of the event.
    """
    scheme, proved, _ = verified
    if scheme.timed and proved is not None:
        return RepeatKey(proved, proved)
    content = proved if proved is not None and data is body else hashlib.sha256(data).digest()
    named = "\0".join(
        [attributes[name] for name in ("source", "type", "id")]
    )  # none of them holds a NUL
    identity = hashlib.sha256(content + named.encode()).digest()
    return RepeatKey(identity, identity if proved is None else proved)


def _scheme(verify: Verify) -> Scheme:
    match verify:
        case VerifyStandardWebhooks():
            return StandardWebhooks()
        case VerifyHmac():
            return Hmac(
                header=verify.header.lower(),
                prefix=verify.prefix,
                encoding=verify.encoding,
                timestamp=verify.timestamp and verify.timestamp.lower(),
                signed=verify.signed,
            )
        case VerifyBasic():
            return BasicLogin(verify.username)
        case VerifyApiKey():
            return HeaderKey(verify.header.lower(), verify.prefix)
    return Nothing()


def _mapper(event: EventTemplates) -> Mapper:
    templates = {name: (text,) for name, text in event if text is not None}
    return compile_mapping(templates)

"""Compile an intake of the configuration, verify requests with it, and recognise repeats."""

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
    NoVerification,
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
from app.problems import ProblemCode

Verifiers = Sequence[tuple[Scheme, Verifier]]

MAX_IDENTITIES = 8  # different events that one signed body may become within the window
REPEATED_BODY: ProblemCode = "repeated-body"


class CompiledIntake(NamedTuple):
    """An intake in the form that serves requests.

    Attributes:
        scheme: returns the verification scheme that belongs to a secret.
        mapper: returns the attributes of the event of a request.
        field: the form field with the JSON document, as in ``Preset``.
        challenge: answers challenges, as in ``Preset``.
        probe: recognises probes, as in ``Preset``.
        max_body: most bytes of a body; 0 if the bound of the listener applies.
    """

    scheme: Callable[[str], Scheme]
    mapper: Mapper
    field: str = ""
    challenge: Challenge | None = None
    probe: Probe | None = None
    max_body: int = 0


def compile_intake(settings: Intake) -> CompiledIntake:
    """Compile the settings of an intake. Raise SetupError that names the invalid setting relative
    to the intake.
    """
    if settings.preset is not None:
        preset = PRESETS[settings.preset]
        mapper = preset.mapper(settings.name)
        most = max_body(settings)
        return CompiledIntake(
            preset.scheme, mapper, preset.field, preset.challenge, preset.probe, most
        )
    assert settings.verify is not None  # noqa: S101 - the model demands it without a preset
    assert settings.event is not None  # noqa: S101 - the same
    scheme = _scheme(settings.verify)
    mapper = _mapper(settings.event)
    return CompiledIntake(lambda _secret: scheme, mapper, max_body=max_body(settings))


def max_body(settings: Intake) -> int:
    """Return the most bytes that a body may have. Return 0 if the bound of the listener applies."""
    own = 0 if settings.preset is None else PRESETS[settings.preset].max_body
    return settings.max_body or own


def secrets_of(settings: Intake) -> list[FileSecret]:
    """Return the secrets of an intake, the current one first. The list is empty if the intake
    verifies nothing.
    """
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
    """Return one verifier for each scheme that the secrets belong to.

    GitLab's secrets need two verifiers while a secret token is replaced by a signing token. Raise
    SetupError for a secret that is no key of its scheme. Raise SetupError, too, if ``max_age``
    would reject every signed time.
    """
    by_scheme: dict[Scheme, list[str]] = {}
    for secret in secrets or [""]:
        by_scheme.setdefault(intake.scheme(secret), []).append(secret)
    if max_age <= 0 and any(scheme.timed for scheme in by_scheme):
        cure = "give it a duration above zero, such as 5m"
        raise SetupError("would refuse every signed time", setting="max_age", cure=cure)
    return [(scheme, scheme.verifier(own, max_age)) for scheme, own in by_scheme.items()]


class VerifiedRequest(NamedTuple):
    """The result of verifying a request, whose sender has proved that it has the secret.

    Attributes:
        scheme: the scheme that verified the request.
        proved: digest of what the signature covers; None if nothing is signed.
        ahead: seconds by which the signed time is ahead of the clock of this process. 0 if it is
            not ahead or if no time is signed.
    """

    scheme: Scheme
    proved: bytes | None = None
    ahead: float = 0.0


def demand_verified(verifiers: Verifiers, arrival: IntakeRequest, now: float) -> VerifiedRequest:
    """Verify a request with each verifier until one succeeds. If none succeeds, raise the
    Unverified of the first verifier."""
    causes: list[Unverified] = []
    for scheme, verifier in verifiers:
        try:
            signed = verifier(arrival, now)
        except VerificationFailed as refused:
            causes.append(Unverified(refused, scheme))
        else:
            if signed is not None:
                return VerifiedRequest(scheme, signed.digest, max(0.0, signed.at - now))
            proved = hashlib.sha256(arrival.body).digest() if scheme.signs else None
            return VerifiedRequest(scheme, proved)
    raise causes[0]


class RepeatKey(NamedTuple):
    """The digests by which a repeated request is recognised.

    Attributes:
        identity: digest of what is signed, if a time is signed. Otherwise it is a digest of the
            event's source, type, id and data.
        group: digest of what the signature covers. Without a signature, it is equal to
            ``identity``.
    """

    identity: bytes
    group: bytes


class RepeatedBody(SenderError):
    """The error 429: within ``window`` seconds, one signed body came with so many different headers
    that it would become too many events. ``wait`` is the number of seconds until the body may come
    as a further event."""

    def __init__(self, *, wait: float, window: float) -> None:
        detail = (
            f"The signature covers the body alone, and this body was accepted as {MAX_IDENTITIES} events with "
            f"other ids, sources or types within max_age, {window:g} s. "
            "Cure: if the publisher repeats equal bodies on purpose, set max_age: 0s at this intake."
        )
        faults = [Fault(REPEATED_BODY, detail)]
        super().__init__("Repeated body", status=429, code=REPEATED_BODY, faults=faults)
        self.wait = wait


def repeat_key(
    verified: VerifiedRequest, body: bytes, data: bytes, attributes: Attributes
) -> RepeatKey:
    """Return the key that a repeat of this request has, too.

    Args:
        verified: the proof of verification.
        body: the body as it came, which may be signed.
        data: the data of the event: the body without its content coding.
        attributes: the attributes of the event.
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
    return NoVerification()


def _mapper(event: EventTemplates) -> Mapper:
    templates = {name: (text,) for name, text in event if text is not None}
    return compile_mapping(templates)

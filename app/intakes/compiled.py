"""An intake of the configuration, ready to be asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.delivery.verifying import Refused
from app.errors import SetupError
from app.intakes.arrival import Arrival
from app.intakes.mapping import Attributes, Mapper, compile_mapping
from app.intakes.presets import PRESETS, Challenge
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


class CompiledIntake(NamedTuple):
    """``scheme``   from a secret to the way to verify that goes with it.
    ``mapper``   from a request to the attributes of its event.
    ``field``, ``challenge``  as a preset has them.
    """

    scheme: Callable[[str], Scheme]
    mapper: Mapper
    field: str = ""
    challenge: Challenge | None = None


def compile_intake(settings: Intake) -> CompiledIntake:
    """SetupError names the setting below the intake that cannot be compiled."""
    if settings.preset is not None:
        preset = PRESETS[settings.preset]
        mapper = preset.mapper(settings.name)
        return CompiledIntake(preset.scheme, mapper, preset.field, preset.challenge)
    assert settings.verify is not None  # noqa: S101 - the model has seen to it
    assert settings.event is not None  # noqa: S101 - likewise
    scheme = _scheme(settings.verify)
    return CompiledIntake(lambda _secret: scheme, _mapper(settings.event))


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


def demand_verified(verifiers: Verifiers, arrival: Arrival, now: float) -> Scheme:
    """The scheme by which the request is verified. Raises Unverified."""
    causes: list[Unverified] = []
    for scheme, verifier in verifiers:
        try:
            verifier(arrival, now)
        except Refused as refused:
            causes.append(Unverified(refused, scheme))
        else:
            return scheme
    raise causes[0]


def repeat_digest(scheme: Scheme, body: bytes, attributes: Attributes) -> bytes | None:
    """The digest that a repeat of a request has too. None where a signed time tells old requests.

    Of the body alone where it is signed: an attacker that has seen one can change headers, and ids made of them.
    An owner of a key that signs nothing can change the body as well: there, equal bodies with other ids are
    other events.
    """
    if scheme.timed:
        return None
    digest = hashlib.sha256(body)
    if not scheme.signs:
        for name in ("id", "source", "type"):
            digest.update(b"\0" + attributes[name].encode())
    return digest.digest()


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

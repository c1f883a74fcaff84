"""The settings of an intake: how the requests of a webhook are verified, and which event each becomes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from app.model.duration import Duration, Size
from app.model.quota import EventQuota
from app.model.route import Name, Strict
from app.model.secret import Secret

PresetName = Literal["github", "gitlab", "stripe", "slack", "shopify", "standard_webhooks"]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Encoding = Literal["hex", "base64"]
TIMESTAMP, BODY = "{timestamp}", "{body}"
_BEST = 'best "${env:NAME}" or "${file:/path}"'
_KEY = f"whsec_ or whpk_ and base64, as skybridge secret makes them; {_BEST}"
_PREVIOUS = "the previous secret, also accepted while the sender changes to the new one"


class VerifyStandardWebhooks(Strict):
    """Verification by Standard Webhooks: a signature of id, time and body by HMAC-SHA256 or ed25519."""

    kind: Literal["standard_webhooks"] = Field(
        description="requests are signed by Standard Webhooks"
    )
    secret: Secret = Field(description=_KEY)
    previous_secret: Secret | None = Field(None, description=_PREVIOUS)


class VerifyHmac(Strict):
    """Verification by a header with the HMAC-SHA256 of the body."""

    kind: Literal["hmac_sha256"] = Field(description="a header has the HMAC-SHA256 of the body")
    header: HeaderName = Field(
        description="name of the header; its value may list several HMACs, separated by commas"
    )
    secret: Secret = Field(description=f"the key of the HMAC, as text; {_BEST}")
    previous_secret: Secret | None = Field(None, description=_PREVIOUS)
    encoding: Encoding = Field("hex", description="encoding of the HMAC in the header")
    prefix: str = Field("", description="text before the HMAC in the header, such as sha256=")
    timestamp: HeaderName | None = Field(
        None,
        description="header with the time of the request in seconds since 1970, which is signed "
        "too: a request older than max_age is refused",
    )
    signed: str = Field(
        f"{TIMESTAMP}.{BODY}",
        description="with timestamp: the text that is signed, a template with {timestamp} and {body}",
    )

    @model_validator(mode="after")
    def signed_has_both(self) -> VerifyHmac:
        if self.timestamp is None and "signed" in self.model_fields_set:
            raise ValueError(
                "The setting signed has no effect without timestamp, because then only the body is signed. "
                "Cure: Set timestamp, or remove signed."
            )
        if self.signed.count(TIMESTAMP) != 1 or self.signed.count(BODY) != 1:
            raise ValueError(
                "The setting signed must contain {timestamp} once and {body} once. Cure: Write for example "
                "{timestamp}.{body}."
            )
        return self


class VerifyBasic(Strict):
    """Verification by user name and password (RFC 7617)."""

    kind: Literal["basic"] = Field(description="requests have a user name and password")
    username: Annotated[str, Field(pattern=r"^[^:\x00-\x1f\x7f]+$")] = Field(
        description="user name"
    )
    password: Secret = Field(description=f"password; {_BEST}")
    previous_password: Secret | None = Field(None, description=_PREVIOUS)


class VerifyApiKey(Strict):
    """Verification by a key in a header."""

    kind: Literal["api_key"] = Field(description="a header has a key")
    header: HeaderName = Field("x-api-key", description="name of the header")
    secret: Secret = Field(description=f"the key; {_BEST}")
    previous_secret: Secret | None = Field(None, description=_PREVIOUS)
    prefix: str = Field("", description='text before the key, such as "Bearer "')


class VerifyNothing(Strict):
    """No verification: every request is accepted. Permitted only while the events listener is on loopback."""

    kind: Literal["none"] = Field(description="requests are not verified; for loopback only")


Verify = Annotated[
    VerifyStandardWebhooks | VerifyHmac | VerifyBasic | VerifyApiKey | VerifyNothing,
    Field(discriminator="kind"),
]

_Template = Annotated[str, Field(min_length=1)]


class EventTemplates(Strict):
    """Templates of the event's attributes. ``{header:NAME}`` is a header of the request,
    ``{pointer:/json/pointer}`` a value in its body; ``{{`` and ``}}`` are braces.

    In a form the pointer ``/name`` is the field of that name. If a template names a missing value, the
    request is answered 422.
    """

    id: _Template = Field(description="id: equal for a repeated event, different for other events")
    type: _Template = Field(description="type of the event")
    source: _Template = Field(description="source: a URI reference")
    subject: _Template | None = Field(None, description="subject; absent: the event has none")
    time: _Template | None = Field(
        None, description="time, as RFC 3339 or seconds since 1970; absent: the event has none"
    )


class Intake(Strict):
    """A webhook whose requests become events: ``POST /in/{name}`` on the events listener."""

    name: Name = Field(description="name of the intake: its path is /in/{name}")
    preset: PresetName | None = Field(
        None,
        description="publisher whose built-in verification and event apply, instead of verify and event",
    )
    secret: Secret | None = Field(
        None, description=f"with preset: the secret with which the publisher signs; {_BEST}"
    )
    previous_secret: Secret | None = Field(None, description=f"with preset: {_PREVIOUS}")
    verify: Verify | None = Field(None, description="without preset: how requests are verified")
    event: EventTemplates | None = Field(
        None, description="without preset: the attributes of the event"
    )
    route: Name | None = Field(
        None, description="the route that takes the events; absent: the first that matches"
    )
    quota: EventQuota | None = Field(
        None,
        description="most events that the intake accepts; above it, requests are answered 429; absent: no limit",
    )
    max_body: Annotated[Size, Field(ge=1)] | None = Field(
        None,
        description="most bytes of a body, before and after its content coding is undone; above it, requests are answered 413; absent: limits.body, "
        "or 25MiB with preset github",
    )
    max_age: Duration = Field(
        "5m",
        validate_default=True,
        description="a request whose signed time differs more from now is answered 401; a repeated request within this "
        "time is answered as a duplicate (0s, if no time is signed: never)",
    )

    @model_validator(mode="after")
    def one_way(self) -> Intake:
        if self.preset is None:
            if self.verify is None or self.event is None:
                raise ValueError(
                    "The intake has no preset, and it lacks verify or event. Cure: Set preset and secret, or set verify and event."
                )
            if self.secret is not None or self.previous_secret is not None:
                raise ValueError(
                    "The setting secret works only with a preset. Cure: Write the secret under verify, or set preset."
                )
            return self
        if self.verify is not None or self.event is not None:
            raise ValueError(
                f"The preset {self.preset} has its own verify and event. Cure: Remove verify and event."
            )
        if self.secret is None:
            raise ValueError(f"The preset {self.preset} needs a secret. Cure: Set secret.")
        return self

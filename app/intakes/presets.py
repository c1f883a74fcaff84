"""The presets: how each publisher signs, and which event each of its requests becomes.

Some publishers sign the body alone. Then the attributes that come from headers, such as id and type
of GitHub's events, are not proved. Anyone who has captured a signed body could change them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from app.intakes import github, gitlab
from app.intakes.arrival import IntakeRequest
from app.intakes.mapping import Alternatives, Attributes, Mapper, compile_mapping
from app.intakes.verification import HeaderKey, Hmac, Scheme, StandardWebhooks, StripeSignature
from app.model.intake import PresetName
from app.model.signing_key import KeyKind

Challenge = Callable[[IntakeRequest], str | None]
"""A function that returns the answer to a challenge: a request that only asks whether the listener
works. It returns None for all other requests."""

Probe = Callable[[IntakeRequest, bytes], bool]
"""A function that returns True for a probe: an unsigned request by which a publisher checks the
listener, without an event. Its arguments are the request and its query."""

_MAX_CHALLENGE = 4096  # characters
_MAX_PROBE = 4096  # bytes of a form
_SLACK_MARK = "x-slack-signature"


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one publisher.

    Attributes:
        scheme: returns the verification scheme that belongs to a secret.
        mapper: returns the mapper for an intake of this name.
        signed: a text for people: what the signature covers.
        headers: the headers from which attributes are taken.
        field: the form field that holds the JSON document.
        challenge: answers challenges, if the publisher sends any.
        probe: recognises unsigned checks, if the publisher sends any.
        max_body: most bytes of a body; 0 if the bound of the listener applies.
    """

    scheme: Callable[[str], Scheme]
    mapper: Callable[[str], Mapper]
    signed: str
    headers: tuple[str, ...] = ()
    field: str = ""
    challenge: Challenge | None = None
    probe: Probe | None = None
    max_body: int = 0


_STRIPE: Mapping[str, Alternatives] = {
    "id": ("{pointer:/id}",),
    "type": ("com.stripe.{pointer:/type}",),
    "source": (
        "https://api.stripe.com/v1/accounts/{pointer:/account}",
        "https://api.stripe.com/v2/accounts/{pointer:/context}",
        "https://api.stripe.com",
    ),
    "subject": ("{pointer:/data/object/id}", "{pointer:/related_object/id}", ""),
    "time": ("{pointer:/created}", ""),
}
_SLACK: Mapping[str, Alternatives] = {  # events, interactions, slash commands
    "id": (
        "{pointer:/event_id}",
        "{pointer:/trigger_id}",
        "{pointer:/view/id}.{pointer:/view/hash}",
        "{pointer:/api_app_id}.{pointer:/team_id}.{pointer:/minute_rate_limited}",
        "{pointer:/callback_id}.{pointer:/user/id}.{pointer:/action_ts}",  # dialogs
    ),
    "type": (
        "com.slack.{pointer:/event/type}",
        "com.slack.{pointer:/type}",
        "com.slack.slash_command",
    ),
    "source": (
        "https://app.slack.com/client/{pointer:/team_id}",
        "https://app.slack.com/client/{pointer:/team/id}",
        "https://app.slack.com/client/{pointer:/enterprise/id}",
        "https://slack.com",
    ),
    "subject": (
        "{pointer:/event/channel}",
        "{pointer:/event/item/channel}",
        "{pointer:/command}",
        "{pointer:/callback_id}",
        "{pointer:/view/callback_id}",
        "",
    ),
    "time": ("{pointer:/event_time}", ""),
}
_SHOPIFY: Mapping[str, Alternatives] = {
    "id": ("{header:x-shopify-webhook-id}",),
    "type": ("com.shopify.{header:x-shopify-topic}",),
    "source": ("https://{header:x-shopify-shop-domain}",),
    "subject": ("{pointer:/admin_graphql_api_id}", "{pointer:/id}", ""),
    "time": ("{header:x-shopify-triggered-at}", "{pointer:/updated_at}", ""),
}


def _standard(name: str) -> Mapper:
    """Return the mapper of Standard Webhooks, whose payloads have a type and a timestamp. The
    source is the intake, because the payload names no sender.
    """
    return compile_mapping({
        "id": ("{header:webhook-id}",),
        "type": ("{pointer:/type}",),
        "source": (f"/in/{name}",),
        "time": ("{pointer:/timestamp}", ""),
    })  # fmt: skip


def _shopify() -> Mapper:
    """Return the mapper of Shopify. It writes the topic ``orders/create`` as ``orders.create``,
    like all event types.
    """
    plain = compile_mapping(_SHOPIFY)

    def mapper(arrival: IntakeRequest, now: float) -> Attributes:
        attributes = plain(arrival, now)
        attributes["type"] = attributes["type"].replace("/", ".")
        return attributes

    return mapper


def _slack_challenge(arrival: IntakeRequest) -> str | None:
    if arrival.is_form and _is_ssl_check(arrival.body):
        return ""
    fields = arrival.fields() or {}
    challenge = fields.get("challenge")
    if fields.get("type") != "url_verification" or not isinstance(challenge, str):
        return None
    return challenge if len(challenge) <= _MAX_CHALLENGE else None


def _slack_probe(arrival: IntakeRequest, query: bytes) -> bool:
    """Return True if Slack checks the certificate. Such a request has the parameter ``ssl_check=1``
    and no signature.
    """
    if arrival.values(_SLACK_MARK):
        return False
    return _is_ssl_check(query) or (arrival.is_form and _is_ssl_check(arrival.body))


def _is_ssl_check(form: bytes) -> bool:
    return len(form) <= _MAX_PROBE and b"ssl_check=1" in form.split(b"&")


def _gitlab(secret: str) -> Scheme:
    """Return the scheme of a GitLab secret: a signing token is a Standard Webhooks key, a secret
    token is sent as it is.
    """
    if secret.startswith(KeyKind.SECRET.value):
        return StandardWebhooks()
    return HeaderKey("x-gitlab-token")


def _always(scheme: Scheme) -> Callable[[str], Scheme]:
    return lambda _secret: scheme


def _same(mapper: Mapper) -> Callable[[str], Mapper]:
    return lambda _name: mapper


PRESETS: Mapping[PresetName, Preset] = MappingProxyType({
    "github": Preset(
        scheme=_always(Hmac(header="x-hub-signature-256", prefix="sha256=")),
        mapper=_same(github.MAPPER),
        signed="the body",
        headers=(github.DELIVERY, github.EVENT),
        field="payload",
        max_body=25 << 20,
    ),
    "gitlab": Preset(
        scheme=_gitlab,
        mapper=_same(gitlab.MAPPER),
        signed="id, time and body with a signing token (whsec_); nothing with a secret token",
        headers=gitlab.IDENTITIES,
    ),
    "stripe": Preset(
        scheme=_always(StripeSignature()),
        mapper=_same(compile_mapping(_STRIPE)),
        signed="time and body",
    ),
    "slack": Preset(
        scheme=_always(
            Hmac(
                header=_SLACK_MARK,
                prefix="v0=",
                timestamp="x-slack-request-timestamp",
                signed="v0:{timestamp}:{body}",
            )
        ),
        mapper=_same(compile_mapping(_SLACK)),
        signed="time and body",
        field="payload",
        challenge=_slack_challenge,
        probe=_slack_probe,
    ),
    "shopify": Preset(
        scheme=_always(Hmac(header="x-shopify-hmac-sha256", encoding="base64")),
        mapper=_same(_shopify()),
        signed="the body",
        headers=(
            "x-shopify-webhook-id",
            "x-shopify-topic",
            "x-shopify-shop-domain",
            "x-shopify-triggered-at",
        ),
    ),
    "standard_webhooks": Preset(
        scheme=_always(StandardWebhooks()),
        mapper=_standard,
        signed="id, time and body",
        headers=("webhook-id",),
    ),
})  # fmt: skip

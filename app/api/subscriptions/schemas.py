"""The OpenAPI descriptions of bodies and answers of ``/v1/subscriptions``.

Handlers read and write these documents themselves, so that a document is stored as it was sent. FastAPI
derives nothing from this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from app.model.duration import with_bounds
from app.model.subscription import Subscription

_REF = "#/components/schemas/{model}"
_EXAMPLE = {
    "id": "billing",
    "source": {"broker": "log", "topics": ["events"]},
    "filters": [{"exact": {"type": "com.example.order.created"}}],
    "sink": "https://billing.example/hook",
}
_DRAFT = {
    "source": "/shop",
    "types": ["com.example.order.created"],
    "config": {"broker": "log", "topics": ["events"]},
    "sink": "https://billing.example/hook",
    "protocol": "HTTP",
}


def _body(media_type: str, schema: str, example: Any) -> dict[str, Any]:
    reference = {"$ref": _REF.format(model=schema)}
    content = {media_type: {"schema": reference, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


REQUEST_BODY = _body("application/json", "Subscription", _EXAMPLE)
PATCH_BODY = _body("application/merge-patch+json", "SubscriptionPatch", {"concurrency": 8})
ANSWER: dict[str, Any] = {
    "description": "The document, which can be pasted into the configuration file.",
    "content": {
        "application/json": {"schema": {"$ref": _REF.format(model="SubscriptionDocument")}}
    },
}
DRAFT_BODY = _body("application/json", "DraftSubscription", _DRAFT)
DRAFT_ANSWER: dict[str, Any] = {
    "description": "The subscription in the form of the draft.",
    "content": {"application/json": {"schema": {"$ref": _REF.format(model="DraftAnswer")}}},
}
ETAG: dict[str, Any] = {
    "ETag": {
        "description": "Version of the document, for If-Match.",
        "schema": {"type": "string", "minLength": 3},
    }
}
WARNING: dict[str, Any] = {
    "Skybridge-Warning": {
        "description": "Effect of the change on waiting events, if there is one.",
        "schema": {"type": "string"},
    }
}
LOCATION: dict[str, Any] = {"Location": {"schema": {"type": "string", "format": "uri-reference"}}}


_LINKED = (
    *("subscription", "subscription_status", "replace_subscription", "patch_subscription"),
    *("pause_subscription", "resume_subscription", "replays", "delete_subscription"),
)
LINKS: dict[str, Any] = {
    name: {"operationId": name, "parameters": {"id": "$response.body#/id"}} for name in _LINKED
}
"""Operations that a client may call next for a subscription that it just created."""


def schemas() -> Mapping[str, Any]:
    """Return the schemas of these bodies and answers. A request has the schema of the model. An answer may be
    any document that fits the model, including references of the file."""
    _, made = models_json_schema(
        [(Subscription, "validation")], ref_template="#/components/schemas/Subscription.{model}"
    )
    models = made["$defs"]
    named = {
        name if name == "Subscription" else f"Subscription.{name}": with_bounds(schema)
        for name, schema in models.items()
    }
    whole = named["Subscription"]
    document = {
        "type": "object",
        "required": ["id", "source", "sink"],
        "additionalProperties": True,
    }
    return {
        **named,
        "Subscription": {**whole, "required": [n for n in whole["required"] if n != "id"]},
        "SubscriptionDocument": {**document, "properties": {"id": {"type": "string"}}},
        "DraftSubscription": {
            **_draft(),
            "required": ["sink", "protocol", "config"],
            "additionalProperties": False,
        },
        "DraftAnswer": {**_draft(), "required": ["id", "sink", "protocol"]},
        "SubscriptionPatch": {
            "type": "object",
            "description": "Members as in Subscription; null resets a member to its default.",
        },
    }


def _draft() -> dict[str, Any]:
    """Return the schema of a subscription in the CloudEvents Subscriptions API draft, 0.1-wip."""
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    return {
        "type": "object",
        "description": "The object of the CloudEvents Subscriptions API draft.",
        "properties": {
            "id": {
                **text,
                "description": "set by Skybridge; ignored when a subscription is created",
            },
            "source": {**text, "description": "source of all delivered events"},
            "types": {
                **texts,
                "minItems": 1,
                "description": "types of delivered events; any of them matches",
            },
            "config": {
                "type": "object",
                "description": "broker and topics to read, and every other setting of Skybridge",
            },
            "filters": {"type": "array", "items": {"type": "object"}},
            "sink": {"type": "string", "format": "uri", "pattern": "^https?://[^/?#]"},
            "protocol": {"const": "HTTP"},
            "protocolsettings": {"type": "object", "properties": {"method": {"const": "POST"}}},
            "sinkcredential": {
                "type": "object",
                "required": ["credentialtype"],
                "properties": {"credentialtype": {"enum": ["PLAIN", "ACCESSTOKEN"]}},
            },
        },
    }

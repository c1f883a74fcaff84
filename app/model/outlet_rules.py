"""Rules between ``request`` and the other settings of a subscription."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from app.bindings.forwarding import is_wanted
from app.model.outlet import RequestTemplates
from app.model.outlet_presets import BATCHED, PresetRequest
from app.model.webhook import ApiKey

OF_CLOUDEVENTS = (
    "content_mode",
    "format",
    "specversion",
    "reply",
    "strict_webhook",
    "handshake",
    "request_rate",
)
"""Settings that ``request`` excludes, because it sends no CloudEvents."""
OFF: Mapping[str, object] = {"handshake": "off", "strict_webhook": False}
"""The values of such settings that ``request`` allows."""


class WebhookSettings(Protocol):
    """The settings of a subscription that ``request`` may contradict."""

    @property
    def model_fields_set(self) -> set[str]: ...
    @property
    def batch(self) -> object: ...
    @property
    def headers(self) -> Mapping[str, object]: ...
    @property
    def auth(self) -> object: ...
    @property
    def forwarded_names(self) -> tuple[str, ...]: ...
    @property
    def retried_statuses(self) -> frozenset[int]: ...


def with_secret_sink(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document of a subscription. If its ``request`` has a preset, its URL is marked as a secret."""
    request, sink = document.get("request"), document.get("sink")
    preset = isinstance(request, Mapping) and request.get("preset") is not None
    preset = preset or isinstance(request, PresetRequest)
    if not preset or not isinstance(sink, str):
        return document
    return {**document, "sink": {"url": sink, "secret": True}}


def contradictions(
    request: RequestTemplates | PresetRequest, subscription: WebhookSettings
) -> Iterator[str]:
    """Yield a message for each setting that contradicts ``request``. The message has a problem and
    its cure.
    """
    for name in OF_CLOUDEVENTS:
        is_off = name in OFF and getattr(subscription, name) == OFF[name]
        if name in subscription.model_fields_set and not is_off:
            yield f"The setting {name} is only for CloudEvents, but request sends none. Remove {name}."
    if subscription.batch is not None and not isinstance(request, BATCHED):
        yield "The setting batch needs request.preset elasticsearch or splunk_hec: other requests contain one event. Remove batch."
    if isinstance(request, RequestTemplates):
        yield from _repeated_headers(request, subscription)
        both = sorted({*request.success.status} & subscription.retried_statuses)
        if both:
            listed = ", ".join(map(str, both))
            yield (
                f"The settings request.success.status and retry.statuses both list {listed}. Remove it from one of them; "
                "without retry.statuses, 404, 408, 409, 425 and 429 are retried."
            )


def _repeated_headers(request: RequestTemplates, subscription: WebhookSettings) -> Iterator[str]:
    for name in request.headers:
        if name in subscription.headers:
            yield f"The header {name} is set in request.headers and in headers. Remove it from one of them."
        if is_wanted(name, subscription.forwarded_names):
            yield f"The header {name} is set in request.headers and also forwarded from the message. Remove it from request.headers or from forward_headers."
        if isinstance(subscription.auth, ApiKey) and subscription.auth.header == name:
            yield f"The header {name} is set in request.headers and also by auth. Remove it from request.headers."

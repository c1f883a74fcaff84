"""Translate an object into the document of a subscription, as the admin API takes it.

The three names that exist in an object alone are resolved: ``sink.service`` becomes a URL, ``secretRef`` the text of a
secret, and ``onDelete`` goes. The text of a secret is in the document alone, which is sent to the admin API.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import msgspec
from pydantic import BaseModel

from app.config.load.secrets import escaped
from app.delivery.target_url import read_url
from app.kubernetes.names import subscription_id
from app.kubernetes.outcome import NotAccepted
from app.kubernetes.structural import SECRET_REF, is_secret, reference_name
from app.model.secret import HIDDEN
from app.model.webhook import ApiKey, Basic, Bearer, OAuth2, Signing

_DEEPEST = 64  # levels of a spec

Object = Mapping[str, Any]
SecretText = Callable[[str, str], str]
"""A function that returns the text of a key of a Secret of the namespace. It raises NotAccepted."""

_BY_KIND: Mapping[str, type[BaseModel]] = {
    "bearer": Bearer,
    "basic": Basic,
    "api_key": ApiKey,
    "oauth2": OAuth2,
}
_PORTS = {False: 80, True: 443}


def document_of(item: Object, secret: SecretText) -> dict[str, Any]:
    """Return the document of an object.

    Args:
        item: The object, which the API server has checked against the definition.
        secret: The reader of secrets of its namespace.

    Raises:
        NotAccepted: Secrets cannot be used, which the message lists, or a text is the placeholder of secrets.
    """
    named = item["metadata"]
    refused: list[NotAccepted] = []
    document = _without_references(item["spec"], named["namespace"], _noting(secret, refused))
    if refused:
        messages = dict.fromkeys(each.outcome.message for each in refused)
        raise NotAccepted(refused[0].outcome.reason, " ".join(messages))
    _demand_no_placeholder(document)
    return {"id": subscription_id(named["namespace"], named["name"]), **document}


def _noting(secret: SecretText, refused: list[NotAccepted]) -> SecretText:
    """Return a reader of secrets that notes each one that cannot be used, so that all are reported at once."""

    def read(name: str, key: str) -> str:
        try:
            return secret(name, key)
        except NotAccepted as error:
            refused.append(error)
            return ""

    return read


def _without_references(spec: Object, namespace: str, secret: SecretText) -> dict[str, Any]:
    """Return the settings of a spec, with the texts of secrets in place of the references."""
    document: dict[str, Any] = deepcopy(dict(spec))
    document.pop("onDelete", None)
    document["sink"] = _sink(document["sink"], namespace, secret)
    if "signing" in document:
        document["signing"] = _resolved(document["signing"], Signing, secret)
    model = _BY_KIND.get(document.get("auth", {}).get("kind"))
    if model is not None:  # a newer definition has more kinds, which the check refuses
        document["auth"] = _resolved(document["auth"], model, secret)
    if isinstance(document.get("headers"), dict):
        document["headers"] = {
            name: _text(value[SECRET_REF], secret) if _is_reference(value) else value
            for name, value in document["headers"].items()
        }
    if "request" in document:
        document["request"] = _with_secrets(document["request"], secret)
    return document


def service_of(item: Object) -> str:
    """Return the name of the Service to which an object sends, or "" if its sink is another."""
    return str(item["spec"]["sink"].get("service", {}).get("name", ""))


def named_service(namespace: str, url: str) -> str:
    """Return the Service of a namespace that the host of a URL names in any form, such as ``billing.team.svc`` and
    ``pod.billing.team.svc.cluster.local``, or ""."""
    try:
        labels = read_url(url).host.rstrip(".").split(".")
    except ValueError:  # no URL, or none that can be sent to
        return ""
    for service, domain, *rest in zip(labels, labels[1:], [*labels[2:], ""], strict=False):
        if domain == namespace and rest[0] in ("svc", ""):
            return service
    return ""


def may_name_service(item: Object, name: str) -> bool:
    """Return True if a Service of the namespace may be a target of an object. A URL in a Secret may name any."""
    sink, auth = item["spec"]["sink"], item["spec"].get("auth", {})
    urls = (sink.get("url", ""), auth.get("token_endpoint", ""))
    namespace = item["metadata"]["namespace"]
    named = {service_of(item), *(named_service(namespace, each) for each in urls)}
    return name in named or SECRET_REF in sink


def secrets_of(item: Object, most_bytes: int) -> frozenset[str]:
    """Return the names of the Secrets to which an object refers, or none if its spec is refused for its size."""
    size = _size(item["spec"])
    if size is None or size > most_bytes:
        return frozenset()
    return frozenset(
        each["name"]
        for value, _ in _nodes(item["spec"])
        if isinstance(value, dict)
        for at, each in value.items()
        if at.endswith("ecretRef") and _has_name(each)
    )


def demand_bounded(spec: Any, most_bytes: int) -> None:
    """Raise NotAccepted if a spec has more bytes as JSON than allowed, or is so deep that functions that call themselves
    would fail. The check of a much larger one would delay the objects of other tenants."""
    size = _size(spec)
    if size is not None and size > most_bytes:
        raise NotAccepted(
            "InvalidSpec",
            f"The spec has {size} bytes, and limits.subscription_bytes allows {most_bytes}. Cure: make it smaller.",
        )
    if size is None or any(depth > _DEEPEST for _, depth in _nodes(spec)):
        raise NotAccepted(
            "InvalidSpec",
            f"The spec is nested more than {_DEEPEST} levels deep. Cure: make it flatter.",
        )


def _size(spec: Any) -> int | None:
    """Return the bytes of a spec as JSON, or None if it is nested much too deeply."""
    try:
        return len(msgspec.json.encode(spec))
    except RecursionError:
        return None


def _demand_no_placeholder(document: Any) -> None:
    """Raise NotAccepted if a text is the placeholder of secrets. The admin API would keep the stored secret in its place,
    also one whose Secret was withdrawn."""
    if any(value == HIDDEN for value, _ in _nodes(document)):
        raise NotAccepted(
            "InvalidSpec",
            f"A text is {HIDDEN}, the placeholder of a secret. Cure: name the Secret by {SECRET_REF}.",
        )


def _nodes(value: Any) -> Iterator[tuple[Any, int]]:
    """Yield each value within a value, with its depth. The depth of the outermost is 0."""
    waiting = [(value, 0)]
    while waiting:
        found, depth = waiting.pop()
        yield found, depth
        inner = found.values() if isinstance(found, dict) else found
        if isinstance(found, dict | list):
            waiting += [(each, depth + 1) for each in inner]


def _has_name(reference: object) -> bool:
    return isinstance(reference, dict) and isinstance(reference.get("name"), str)


def _sink(sink: Object, namespace: str, secret: SecretText) -> Any:
    if "service" in sink:
        return _service_url(sink["service"], namespace)
    if SECRET_REF in sink:
        return {"url": _text(sink[SECRET_REF], secret), "secret": True}
    return sink.get("url", dict(sink))


def _service_url(service: Object, namespace: str) -> str:
    tls = bool(service.get("tls", False))
    port = service.get("port", _PORTS[tls])
    scheme = "https" if tls else "http"
    return f"{scheme}://{service['name']}.{namespace}.svc:{port}{service.get('path', '/')}"


def _resolved(settings: Object, model: type[BaseModel], secret: SecretText) -> dict[str, Any]:
    """Return settings of a model with the secrets in place of their references."""
    found = dict(settings)
    for reference, setting in _secret_settings(model).items():
        if reference in found:
            found[setting] = _text(found.pop(reference), secret)
    return found


@functools.cache
def _secret_settings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the secret settings of a model, by the name of the reference to each."""
    properties = model.model_json_schema()["properties"]
    return {reference_name(name): name for name, node in properties.items() if is_secret(node)}


def _with_secrets(value: Any, secret: SecretText) -> Any:
    """Return templates of a request with ``{secret: text}`` in place of each ``{secretRef: ...}``."""
    if _is_reference(value):
        return {"secret": _text(value[SECRET_REF], secret)}
    if isinstance(value, dict):
        return {name: _with_secrets(inner, secret) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_secrets(inner, secret) for inner in value]
    return value


def _is_reference(value: object) -> bool:
    return isinstance(value, dict) and {*value} == {SECRET_REF}


def _text(reference: Any, secret: SecretText) -> str:
    """Return the text of a secret as a document has it, where ``$`` would begin a reference."""
    if not _has_name(reference) or not isinstance(reference.get("key"), str):
        raise NotAccepted("InvalidSpec", f"A {SECRET_REF} needs name and key.")
    return escaped(secret(reference["name"], reference["key"]))

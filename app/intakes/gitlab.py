"""GitLab's webhooks as the CloudEvents project's adapter for GitLab maps them.

Kinds that the adapter does not list follow its general pattern: ``com.gitlab.<object_kind>.<action>``,
source the project's URL, or of what is nearest to it. Jobs come as ``build``, which the adapter calls ``job``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.intakes.adapters import PayloadPaths, attributes_of, compile_adapter, first, texts
from app.intakes.arrival import IntakeRequest
from app.intakes.mapping import Attributes, Missing, header_text

# An event has this name at each of its deliveries; GitLab before 17.4 has the second alone.
IDENTITIES = ("idempotency-key", "x-gitlab-event-uuid")

_PROJECT = ("repository.homepage", "project.web_url")
_NOTED = ("object_attributes.url", *_PROJECT)
_NEAREST = ("group.web_url", "object_attributes.url", "repository.homepage", "project.web_url")
_CREATED = ("object_attributes.created_at",)
_NOTE = PayloadPaths("note", (), _NOTED, ("object_attributes.id",), _CREATED)
_BUILD = PayloadPaths("job", ("job_status", "build_status"), _PROJECT, ("job_id", "build_id"))

ADAPTER: Mapping[str, PayloadPaths] = {
    "push": PayloadPaths("push", (), _PROJECT, ("checkout_sha",)),
    "tag_push": PayloadPaths("tag_push", (), _PROJECT, ("ref",)),
    "issue": PayloadPaths(
        "issue", ("object_attributes.state",), _PROJECT, ("object_attributes.iid",)
    ),
    "note": _NOTE,
    "merge_request": PayloadPaths(
        "merge_request",
        ("object_attributes.action",),
        _PROJECT,
        ("object_attributes.iid",),
        _CREATED,
    ),
    "wiki_page": PayloadPaths(
        "wiki_page",
        ("object_attributes.action",),
        ("project.web_url",),
        ("object_attributes.slug",),
    ),
    "pipeline": PayloadPaths(
        "pipeline",
        ("object_attributes.status",),
        ("project.web_url",),
        ("object_attributes.id",),
    ),
    "build": _BUILD,
    "job": _BUILD,
}


def attributes(kind: str, identity: str, fields: Any, received: str) -> Attributes:
    """``kind``: ``object_kind`` or ``event_name``. ``received``: RFC 3339 text, where the adapter says
    "current time"."""
    rule = ADAPTER.get(kind) or PayloadPaths(
        kind,
        ("object_attributes.action", "action"),
        _PROJECT,
        ("object_attributes.iid", "object_attributes.id", "id"),
        _CREATED,
    )
    detail = list(texts(fields, rule.detail))[:1]
    name = _noted(fields) if rule is _NOTE else ".".join([rule.name, *detail])
    type_, source = f"com.gitlab.{name}", _source(rule, fields)
    project = "project.path_with_namespace"
    return attributes_of(rule, fields, identity, type_, source, received, project)


def _source(rule: PayloadPaths, fields: Any) -> str:
    if rule is _NOTE:
        commit = first(fields, ("commit.url",)) if _noted(fields) == "note.commit" else ""
        return commit or first(fields, rule.source).partition("#note_")[0]
    return first(fields, (*rule.source, *_NEAREST))


def _noted(fields: Any) -> str:
    """``MergeRequest`` as ``note.merge_request``."""
    on = first(fields, ("object_attributes.noteable_type",))
    words = "".join(f"_{each.lower()}" if each.isupper() else each for each in on).strip("_")
    return f"note.{words}" if words else "note"


def _kind(arrival: IntakeRequest) -> str:
    if kind := first(arrival.fields(), ("object_kind", "event_name")):
        return kind
    raise Missing(("the body has no text at /object_kind", "/object_kind"))


def _identity(arrival: IntakeRequest) -> str:
    for name in IDENTITIES:
        if arrival.values(name):
            return header_text(arrival, name)
    return header_text(arrival, IDENTITIES[0])


def _instance(arrival: IntakeRequest) -> str:
    """The source of what belongs to no project or group."""
    return header_text(arrival, "x-gitlab-instance")


MAPPER = compile_adapter(attributes, _kind, _identity, _instance)

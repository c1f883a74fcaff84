"""Map GitLab's webhooks to event attributes as the CloudEvents project's adapter for GitLab does.

Kinds that the adapter does not list follow its general pattern. Their type is
``com.gitlab.<object_kind>.<action>``, and their source is the URL of the project, or else of the
group or object. GitLab sends jobs as ``build``, which the adapter calls ``job``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.intakes.adapters import (
    PayloadPaths,
    build_attributes,
    compile_adapter,
    first_text,
    texts_at,
)
from app.intakes.arrival import IntakeRequest
from app.intakes.mapping import Attributes, MissingValue, header_text

# These headers are equal in every delivery of one event. GitLab before 17.4 sends the second alone.
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
    """Return the attributes of a GitLab event.

    Args:
        kind: the kind of event, from the field ``object_kind`` or ``event_name``.
        identity: the id of the event.
        fields: the payload.
        received: RFC 3339 text, the time of the event if the adapter demands the current time.
    """
    rule = ADAPTER.get(kind) or PayloadPaths(
        kind,
        ("object_attributes.action", "action"),
        _PROJECT,
        ("object_attributes.iid", "object_attributes.id", "id"),
        _CREATED,
    )
    detail = list(texts_at(fields, rule.detail))[:1]
    name = _note_type(fields) if rule is _NOTE else ".".join([rule.name, *detail])
    type_, source = f"com.gitlab.{name}", _source(rule, fields)
    project = "project.path_with_namespace"
    return build_attributes(rule, fields, identity, type_, source, received, project)


def _source(rule: PayloadPaths, fields: Any) -> str:
    if rule is _NOTE:
        commit = first_text(fields, ("commit.url",)) if _note_type(fields) == "note.commit" else ""
        return commit or first_text(fields, rule.source).partition("#note_")[0]
    return first_text(fields, (*rule.source, *_NEAREST))


def _note_type(fields: Any) -> str:
    """Return the type of a comment, such as ``note.merge_request`` for a comment on a merge
    request.
    """
    on = first_text(fields, ("object_attributes.noteable_type",))
    words = "".join(f"_{each.lower()}" if each.isupper() else each for each in on).strip("_")
    return f"note.{words}" if words else "note"


def _kind(arrival: IntakeRequest) -> str:
    if kind := first_text(arrival.fields(), ("object_kind", "event_name")):
        return kind
    raise MissingValue(("the body has no text at /object_kind", "/object_kind"))


def _identity(arrival: IntakeRequest) -> str:
    for name in IDENTITIES:
        if arrival.values(name):
            return header_text(arrival, name)
    return header_text(arrival, IDENTITIES[0])


def _instance(arrival: IntakeRequest) -> str:
    """Return the URL of the GitLab instance, the source of events that belong to no project or
    group.
    """
    return header_text(arrival, "x-gitlab-instance")


MAPPER = compile_adapter(attributes, _kind, _identity, _instance)

"""GitHub webhook payloads as CloudEvents, as the CloudEvents project's GitHub adapter maps them.

One table says it all: which field names the source, the subject and the time of each kind of event.
The payload becomes the data, byte for byte. Kinds that the adapter does not list (GitHub has grown)
follow its general pattern: ``com.github.<event>.<action>``, source the repository's URL.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from app.event.value import CloudEvent, DataForm

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_REPOSITORY = "repository.url"
_OWNER = "repository.owner.url"
_ACCOUNT = "installation.account.url"


class Rule(NamedTuple):
    """Where in a payload each attribute is found; dotted paths, the first that holds a value wins.

    ``name``     the word after ``com.github.``; ``detail``: fields whose values follow it.
    ``time``     empty where the adapter says "current time".
    """

    name: str
    detail: tuple[str, ...] = ("action",)
    source: str = _REPOSITORY
    subject: tuple[str, ...] = ()
    time: tuple[str, ...] = ()


def _rule(
    name: str,
    subject: str = "",
    time: str = "",
    *,
    detail: str = "action",
    source: str = _REPOSITORY,
) -> Rule:
    return Rule(name, tuple(detail.split()), source, tuple(subject.split()), tuple(time.split()))


ADAPTER: Mapping[str, Rule] = {
    "check_run": _rule("check_run", "check_run.id", "check_run.completed_at check_run.started_at"),
    "check_suite": _rule("check_suite", "check_suite.id", "check_suite.updated_at"),
    "commit_comment": _rule("commit_comment", "comment.id", "comment.updated_at", source="comment.url"),
    "create": _rule("create", "ref", detail="ref_type"),
    "delete": _rule("delete", "ref", detail="ref_type"),
    "deploy_key": _rule("deploy_key", "key.id", "key.deleted_at key.created_at"),
    "deployment": _rule("deployment", "deployment.id", "deployment.updated_at", detail=""),
    "deployment_status": _rule(
        "deployment_status", "deployment_status.url", "deployment_status.updated_at",
        detail="deployment_status.state", source="deployment.url",
    ),
    "fork": _rule("fork", "forkee.url", "forkee.created_at", detail=""),
    "github_app_authorization": _rule("github_app_authorization", detail="", source="sender.url"),
    "gollum": _rule("gollum", detail=""),
    "installation": _rule(
        "installation", "installation.id", "installation.updated_at", source=_ACCOUNT
    ),
    "installation_repositories": _rule(
        "installation_repository", "installation.id", "installation.updated_at", source=_ACCOUNT
    ),
    "issue_comment": _rule("issue_comment", "comment.id", "comment.updated_at", source="issue.url"),
    "issues": _rule("issue", "issue.number", "issue.updated_at"),
    "label": _rule("label", "label.name"),
    "marketplace_purchase": _rule(
        "marketplace_purchase", "marketplace_purchase.account.login", "effective_date",
        source="sender.url",
    ),
    "member": _rule("member", "member.login"),
    "membership": _rule("membership", "member.login", detail="scope action", source="team.url"),
    "meta": _rule("meta", "hook_id", "hook.updated_at"),
    "milestone": _rule("milestone", "milestone.number", "milestone.updated_at"),
    "organization": _rule("organization", "membership.user.login", source="organization.url"),
    "org_block": _rule("org_block", "blocked_user.login", source="organization.url"),
    "page_build": _rule("page_build", "build.url", "build.updated_at", detail=""),
    "project_card": _rule("project_card", "project_card.id", "project_card.updated_at"),
    "project_column": _rule("project_column", "project_column.id", "project_column.updated_at"),
    "project": _rule("project", "project.id", "project.updated_at"),
    "public": _rule("public", "repository.name", "repository.updated_at", detail="", source=_OWNER),
    "pull_request": _rule("pull_request", "number", "pull_request.updated_at"),
    "pull_request_review": _rule(
        "pull_request_review", "review.id", "review.submitted_at", source="pull_request.url"
    ),
    "pull_request_review_comment": _rule(
        "pull_request_review_comment", "comment.id", "pull_request.updated_at"
    ),
    "push": _rule("push", "ref", detail=""),
    "package": _rule("registry_package", "package.html_url", "package.updated_at"),
    "release": _rule("release", "release.id", "release.published_at release.created_at"),
    "repository": _rule("repository", "repository.name", "repository.updated_at", source=_OWNER),
    "repository_import": _rule(
        "repository_import", "repository.name", "repository.updated_at", detail="", source=_OWNER
    ),
    "repository_vulnerability_alert": _rule("repository_vulnerability_alert", "alert.id"),
    "security_advisory": _rule(
        "security_advisory", "security_advisory.ghsa_id", "security_advisory.updated_at"
    ),
    "star": _rule("star", time="starred_at"),
    "status": _rule("status", "sha", "updated_at", detail=""),
    "team": _rule("team", "team.id", "team.updated_at"),
    "team_add": _rule("team_add", "team.id"),
    "watch": _rule("watch"),
}  # fmt: skip

_OTHER_SOURCES = ("organization.url", _ACCOUNT, "sender.url")


def to_event(name: str, payload: bytes, *, delivery: str, received: str) -> CloudEvent:
    """The webhook ``name`` with body ``payload`` as an event.

    ``delivery``  the ``X-GitHub-Delivery`` header: the event's id.
    ``received``  RFC 3339 text: its time where the adapter says "current time".
    """
    fields = msgspec.json.decode(payload)
    rule = ADAPTER.get(name) or Rule(
        name, subject=(f"{name}.number", f"{name}.id"), time=(f"{name}.updated_at",)
    )
    attributes = {
        "specversion": "1.0",
        "id": delivery,
        "source": _source(rule, fields),
        "type": ".".join(["com.github", rule.name, *_texts(fields, rule.detail)]),
        "time": next(filter(None, map(_timestamp, _values(fields, rule.time))), received),
        "datacontenttype": "application/json",
    }
    if subject := next(iter(_texts(fields, rule.subject)), ""):
        attributes["subject"] = subject
    if repository := next(iter(_texts(fields, ("repository.full_name",))), ""):
        attributes["partitionkey"] = repository  # order is kept per repository
    return CloudEvent(attributes, payload, DataForm.JSON)


def delivery_of(name: str, index: int, payload: bytes) -> str:
    """Example payloads come without their delivery header: a digest stands in, equal every time."""
    digest = hashlib.sha256(b"%s/%d/" % (name.encode(), index) + payload).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def _source(rule: Rule, fields: Any) -> str:
    if rule.name == "security_advisory":
        return "github.com"  # the adapter's own word: an advisory belongs to no repository
    found = next(iter(_texts(fields, (rule.source, *_OTHER_SOURCES))), "https://api.github.com")
    if rule.name == "marketplace_purchase":
        return found.rpartition("/")[0]  # the account is the subject already
    if rule.name == "commit_comment":
        return f"{found}/{fields['comment']['commit_id']}"
    return found


def _texts(fields: Any, paths: Iterable[str]) -> list[str]:
    return [str(value) for value in _values(fields, paths) if isinstance(value, str | int)]


def _values(fields: Any, paths: Iterable[str]) -> list[Any]:
    return [value for path in paths if (value := _at(fields, path)) not in (None, "")]


def _at(fields: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(fields, dict):
            return None
        fields = fields.get(step)
    return fields


def _timestamp(value: Any) -> str:
    """RFC 3339 text; some payloads give seconds since the epoch instead. Empty for neither."""
    if isinstance(value, int):
        at = dt.datetime.fromtimestamp(value, dt.UTC)
        return at.isoformat().replace("+00:00", "Z")
    return value if isinstance(value, str) and _TIMESTAMP.fullmatch(value) else ""

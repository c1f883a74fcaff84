"""Map GitHub's webhooks to event attributes as the CloudEvents project's adapter for GitHub does.

One table holds the fields for source, subject and time of each kind of event. Kinds that the
adapter does not list follow its general pattern. Their type is ``com.github.<event>.<action>``, and
their source is the URL of the repository, or else of the organisation, account or sender.
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
from app.intakes.mapping import Attributes, Template

EVENT, DELIVERY = "x-github-event", "x-github-delivery"

_REPOSITORY = "repository.url"
_OWNER = "repository.owner.url"
_ACCOUNT = "installation.account.url"


def _rule(
    name: str,
    subject: str = "",
    time: str = "",
    *,
    detail: str = "action",
    source: str = _REPOSITORY,
) -> PayloadPaths:
    return PayloadPaths(
        name, tuple(detail.split()), (source,), tuple(subject.split()), tuple(time.split())
    )


ADAPTER: Mapping[str, PayloadPaths] = {
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

_NEAREST = ("organization.url", _ACCOUNT, "sender.url")
_GITHUB = "https://api.github.com"


def attributes(name: str, delivery: str, fields: Any, received: str) -> Attributes:
    """Return the attributes of a GitHub event.

    Args:
        name: the kind of event, from the header ``X-GitHub-Event``.
        delivery: the value of the header ``X-GitHub-Delivery``, which becomes the id.
        fields: the payload.
        received: RFC 3339 text, the time of the event if the adapter demands the current time.
    """
    rule = ADAPTER.get(name) or PayloadPaths(
        name,
        source=(_REPOSITORY,),
        subject=(f"{name}.number", f"{name}.id"),
        time=(f"{name}.updated_at",),
    )
    type_ = ".".join(["com.github", rule.name, *texts_at(fields, rule.detail)])
    source = _source(rule, fields)
    return build_attributes(rule, fields, delivery, type_, source, received, "repository.full_name")


def _source(rule: PayloadPaths, fields: Any) -> str:
    if rule.name == "security_advisory":
        return "github.com"  # as the adapter has it: an advisory belongs to no repository
    found = first_text(fields, (*rule.source, *_NEAREST)) or _GITHUB
    if rule.name == "marketplace_purchase":
        return found.rpartition("/")[0] or _GITHUB  # without the account, which is the subject
    if rule.name == "commit_comment" and (commit := first_text(fields, ("comment.commit_id",))):
        return f"{found}/{commit}"
    return found


MAPPER = compile_adapter(
    attributes, Template(f"{{header:{EVENT}}}").text, Template(f"{{header:{DELIVERY}}}").text
)

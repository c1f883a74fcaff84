"""Answers that several resources share, as OpenAPI shows them."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, Field

from app.model.operator_verdict import OperatorVerdict, Severity, VerdictName
from app.model.scopes import Scope


class CopyingView(BaseModel):
    """A base of answers that copy members of another object."""

    @classmethod
    def members(cls, value: object, **given: object) -> dict[str, Any]:
        """Return the members of ``value`` that the answer also has. The members in ``given`` are added or
        replace them."""
        own = {name: getattr(value, name) for name in cls.model_fields if hasattr(value, name)}
        return own | given

    @classmethod
    def of(cls, value: object, **given: object) -> Self:
        """Return the validated answer for ``value``. Objects inside ``value`` are also converted to answers.
        ``given`` has further members."""
        return cls.model_validate(cls.members(value, **given), from_attributes=True)


class FaultView(BaseModel):
    """One fault of an event."""

    code: str = Field(description="kind of the fault, for programs")
    detail: str = Field(description="the fault in words, for people")
    at: str = Field(
        "", description="place of the fault: a header, a JSON Pointer or a query parameter"
    )
    rule: str = Field("", description="clause of the specification that the event breaks")
    index: int | None = Field(None, description="index of the event in a batch")


class Problem(BaseModel):
    """The body of an error answer: problem details of RFC 9457."""

    type: str = Field(
        description="kind of the problem, for programs: urn:skybridge:problem: and a code. /docs#CODE has its cause and cure",
        examples=["urn:skybridge:problem:unknown-topic"],
    )
    title: str = Field(description="summary of the status, for people")
    status: int = Field(description="HTTP status of the answer")
    detail: str = Field("", description="what happened and how to cure it, for people")
    faults: list[FaultView] = Field([], description="all faults of an invalid event")
    scope: Scope | None = Field(None, description="scope that the token lacks")


class HealthView(BaseModel):
    """The health of the process or of one broker."""

    healthy: bool = Field(description="true if it works")
    cause: str = Field("", description="why it does not work; empty if it works")


class Attention(BaseModel):
    """A verdict: one thing that needs a person, with its cure."""

    verdict: VerdictName = Field(description="kind of the problem, for programs")
    severity: Severity = Field(
        description="error: events are refused or not delivered; warning: events wait, or were given up; notice: an "
        "operator caused the state"
    )
    subject: str = Field(
        description="part that has the problem", examples=["subscription billing", "broker main"]
    )
    detail: str = Field(description="the problem")
    cure: str = Field(description="what a person has to do")
    next: str = Field(description="command that repairs it or shows more")

    @classmethod
    def of(cls, verdict: OperatorVerdict) -> Attention:
        """Return the answer for a verdict."""
        return cls(
            verdict=verdict.name,
            severity=verdict.severity,
            subject=verdict.subject,
            detail=verdict.detail,
            cure=verdict.cure,
            next=verdict.command,
        )

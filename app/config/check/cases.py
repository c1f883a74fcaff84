"""Unit tests of one's own routes, as a person writes them: an event, and what is expected of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from app.config.load.document import parse
from app.config.load.finding import BadConfiguration, Path, did_you_mean
from app.config.load.loader import content
from app.model.route import Name, Strict

Text = Annotated[str, Field(min_length=1)]


class Expect(Strict):
    """Only what is written is looked at."""

    route: Name | None = Field(None, description="the route that accepts it")
    to: tuple[Text, ...] = Field((), description="every target, as broker/topic")
    key: str | None = Field(None, description="the record key; null for none")
    content_mode: Literal["binary", "structured"] | None = Field(
        None, description="the content mode of the record"
    )
    subscriptions: tuple[Text, ...] = Field(
        (), description="all subscriptions that would deliver it, behind mirrors too; [] for none"
    )
    refused: Text | int | None = Field(
        None,
        description="the problem that the sender would get: its code, such as no-route, or its "
        "status",
    )

    @model_validator(mode="after")
    def expects_something(self) -> Expect:
        if not self.model_fields_set:
            raise ValueError("expects nothing: expect a route, to, key, ...")
        return self


class Case(Strict):
    """``route`` and ``key``: as the request gives them."""

    name: Text = Field(description="what the case shows, in words")
    event: Mapping[str, Any] = Field(
        description="attributes, and data or data_base64; missing specversion, id and source "
        "are filled in"
    )
    mode: Literal["binary", "structured"] = Field(
        "binary", description="content mode of the request"
    )
    key: str | None = Field(None, description="the key of the request, Skybridge-Key")
    route: Name | None = Field(None, description="posted to /events/{route}")
    producer: Name | None = Field(
        None, description="the producer that sends it; without it, anybody"
    )
    expect: Expect


class Cases(Strict):
    configuration: FilePath | None = Field(
        None, description="the file under test, relative to this one; --config wins"
    )
    cases: Annotated[tuple[Case, ...], Field(min_length=1)]


class Suite(BaseModel):
    """``lines``: where each case begins."""

    cases: Cases
    lines: tuple[int, ...]


def read_cases(file: FilePath) -> Suite:
    """Raises BadConfiguration with everything that is wrong, each with its line."""
    try:
        document = parse(content(file))
    except BadConfiguration as error:
        raise BadConfiguration(error.findings, source=str(file)) from None
    try:
        cases = Cases.model_validate(document.root)
    except ValidationError as error:
        details = error.errors(include_url=False)
        for detail in details:
            if detail["type"] == "too_short" and len(details) > 1:
                continue  # what is wrong with each of them is told already
            path: Path = detail["loc"]
            document.wrong(path, *_words(detail["type"], detail["msg"], path))
    else:
        if not document.findings:
            lines = (document.place(("cases", n)).line for n in range(len(cases.cases)))
            return Suite(cases=cases, lines=tuple(lines))
    raise BadConfiguration(
        sorted(document.findings, key=lambda finding: finding.line), source=str(file)
    )


def _words(kind: str, message: str, path: Path) -> tuple[str, str]:
    """What is wrong, and the cure."""
    if kind == "missing":
        return "is missing", f"set {path[-1]}"
    if kind == "extra_forbidden":
        return "unknown setting", did_you_mean(str(path[-1]), _known(path[:-1]))
    return message.removeprefix("Value error, ").removeprefix("Input "), ""


def _known(path: Path) -> list[str]:
    """The settings where ``path`` leads."""
    names = [step for step in path if isinstance(step, str)]
    model: type[BaseModel] = Expect if "expect" in names else Case if names else Cases
    return [*model.model_fields]

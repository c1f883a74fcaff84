"""Read the test cases of ``skybridge test``: events, and the expected result of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from app.config.load.document import parse
from app.config.load.finding import BadConfiguration, Path, did_you_mean, problem_and_cure
from app.config.load.loader import content
from app.model.route import Name, Strict

Text = Annotated[str, Field(min_length=1)]


class ExpectRequest(Strict):
    """The request that a subscription with the setting ``request`` is expected to send. Only the
    members that are set are compared.
    """

    method: str | None = Field(None, description="the method")
    url: str | None = Field(None, description="the URL, as explain shows it")
    headers: Mapping[str, str] = Field({}, description="headers that the request has")
    body: Any = Field(
        None, description="the body: a JSON value, or the text if the body is not JSON"
    )


class Expect(Strict):
    """The expected result of a case. Only the members that are set are compared."""

    route: Name | None = Field(None, description="the route that accepts it")
    to: tuple[Text, ...] = Field((), description="every target, as broker/topic")
    key: str | None = Field(None, description="the record key; null for none")
    content_mode: Literal["binary", "structured"] | None = Field(
        None, description="the content mode of the record"
    )
    subscriptions: tuple[Text, ...] = Field(
        (),
        description="all subscriptions that would deliver it, also those that read mirrors; [] for none",
    )
    request: Mapping[Name, ExpectRequest] = Field(
        {}, description="the shaped request of each subscription, by its id; secrets are asterisks"
    )
    refused: Text | int | None = Field(
        None,
        description="the problem that the sender would get: its code, such as no-route, or its "
        "status",
    )

    @model_validator(mode="after")
    def expects_something(self) -> Expect:
        if not self.model_fields_set:
            raise ValueError(
                "The case expects nothing. Cure: Expect a route, to, key or another member."
            )
        return self


class Case(Strict):
    """A test case. ``route`` and ``key`` are the route and the record key that the request of the
    case names.
    """

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
        None, description="the producer that sends it; without it, any sender"
    )
    expect: Expect


class Cases(Strict):
    """The file of test cases."""

    configuration: FilePath | None = Field(
        None, description="the file under test, relative to this one; --config wins"
    )
    cases: Annotated[tuple[Case, ...], Field(min_length=1)]


class Suite(BaseModel):
    """The test cases of a file. ``lines`` has the line where each case begins."""

    cases: Cases
    lines: tuple[int, ...]


def read_cases(file: FilePath) -> Suite:
    """Read a file of test cases. Raise BadConfiguration with every fault and its line."""
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
                continue  # the faults of the single cases are reported
            path: Path = detail["loc"]
            document.add_error(path, *_problem(detail["type"], detail["msg"], path))
    else:
        if not document.findings:
            lines = (document.place(("cases", n)).line for n in range(len(cases.cases)))
            return Suite(cases=cases, lines=tuple(lines))
    raise BadConfiguration(
        sorted(document.findings, key=lambda finding: finding.line), source=str(file)
    )


def _problem(kind: str, message: str, path: Path) -> tuple[str, str]:
    """Return the problem and its cure for a pydantic error in the file of cases."""
    if kind == "missing":
        return "The setting is missing.", f"Set {path[-1]}."
    if kind == "extra_forbidden":
        return "The setting is unknown.", did_you_mean(str(path[-1]), _known(path[:-1]))
    return problem_and_cure(message)


def _known(path: Path) -> list[str]:
    """Return the names of the settings that are allowed at ``path``."""
    names = [step for step in path if isinstance(step, str)]
    model: type[BaseModel] = Expect if "expect" in names else Case if names else Cases
    return [*model.model_fields]

"""The setting ``request`` of a subscription: the request for a target that does not speak CloudEvents.

Texts are templates (``app.event.templates``). A value of ``${env:NAME}`` or ``${file:/path}`` is a secret, and so is
``{secret: ...}`` over the API. A secret is sent as it is, is no template, and is hidden where requests are shown.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from app.bindings.forwarding import is_field_name, why_not
from app.event.templates import POINTER
from app.model.duration import Count
from app.model.route import Strict
from app.model.secret import HIDDEN, FileSecret, FileText, MixedText, Secret

MOST_FIELDS = 64  # headers, or parameters of the query


class SecretValue(Strict):
    """A text that is a secret as a whole: ``{secret: ...}``, or a setting that is nothing but a reference."""

    secret: Secret = Field(description="a secret: sent as it is, hidden where requests are shown")


class SecretText(BaseModel):
    """A template with secrets in it, from a text with references: ``Bearer ${env:KEY}``."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    pieces: tuple[str | FileSecret, ...]

    @property
    def shown(self) -> str:
        """Return the text with its secrets hidden."""
        return "".join([each if isinstance(each, str) else HIDDEN for each in self.pieces])


def _text(value: object) -> str | SecretValue | SecretText:
    match value:
        case SecretValue() | SecretText():
            return value
        case FileText():
            return SecretValue.model_validate({"secret": value})
        case MixedText():
            return SecretText(pieces=value.pieces)
        case str():
            return value
        case {"secret": str(secret), **others} if not others:
            return SecretValue.model_validate({"secret": secret})
    raise ValueError(
        "The value is neither text nor a secret. Cure: Write text in quotes, or {secret: TEXT}."
    )


def _json(value: object) -> object:
    """Return a JSON value whose texts are templates and secrets."""
    match value:
        case {"secret": str(), **others} if not others:
            return _text(value)
        case dict():
            return {str(name): _json(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_json(inner) for inner in value]
        case str() | SecretValue() | SecretText():
            return _text(value)
        case None | bool() | int() | float():
            return value
    raise ValueError(
        "The value is not JSON. Cure: Write text, numbers, true, false, null, lists or mappings."
    )


def _shown(value: object) -> object:
    """Return a text or JSON with its secrets hidden."""
    match value:
        case SecretValue():
            return {"secret": HIDDEN}
        case SecretText():
            return value.shown
        case dict():
            return {name: _shown(inner) for name, inner in value.items()}
        case list():
            return [_shown(inner) for inner in value]
    return value


_SECRET = {
    "type": "object",
    "required": ["secret"],
    "properties": {"secret": {"type": "string", "description": "a secret"}},
}
_SCHEMA = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {**_SECRET, "additionalProperties": False}]}
)

Text = Annotated[
    str | SecretValue | SecretText, PlainValidator(_text), PlainSerializer(_shown), _SCHEMA
]
"""A template, or a secret."""
Json = Annotated[object, PlainValidator(_json), PlainSerializer(_shown), WithJsonSchema({})]
"""A JSON value whose strings are templates, or secrets."""


def _header_name(name: str) -> str:
    if not is_field_name(name) or name != name.lower():
        raise ValueError(
            "The value is not a header name in lower case (RFC 9110 5.1). Cure: Write a header name such as x-api-key."
        )
    why = why_not(name)
    if why and name not in {"content-type", "user-agent", "prefer"}:
        raise ValueError(
            f"The header {name} cannot be set, because it {why}. Cure: Remove the header."
        )
    return name


def _pointer(text: str) -> str:
    if text and POINTER.fullmatch(text) is None:
        raise ValueError(
            "The value is not a JSON Pointer. Cure: Write a path that begins with /, for example /customer/email."
        )
    return text


Pointer = Annotated[str, AfterValidator(_pointer)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
Scalar = str | int | float | bool | None


class JsonBody(Strict):
    """A JSON document that looks like one of the other forms: ``{json: {text: ...}}``."""

    model_config = ConfigDict(protected_namespaces=())

    json_: Json = Field(alias="json", description="the document; its strings are templates")


class FormBody(Strict):
    """Fields as a form of a web page sends them: ``application/x-www-form-urlencoded``."""

    form: dict[str, Text] = Field(description="name and value of each field")


class TextBody(Strict):
    """A plain text: ``text/plain``."""

    text: Text = Field(description="the text, a template")


class DataPart(Strict):
    """The data of the event, or a value in it."""

    pointer: Pointer = Field("", description="JSON Pointer to a value; without it, all of the data")


class DataBody(Strict):
    """The data of the event as it came, with its content type."""

    data: DataPart = Field(description="which part of the data")


def _form_of(body: object) -> str:
    match body:
        case JsonBody() | {"json": _} if _is_alone(body):
            return "json"
        case FormBody() | {"form": dict()} if _is_alone(body):
            return "form"
        case TextBody() | {"text": _} if _is_alone(body):
            return "text"
        case DataBody() | {"data": dict()} if _is_alone(body):
            return "data"
    return "document"


def _is_alone(body: object) -> bool:
    return not isinstance(body, dict) or len(body) == 1


Body = Annotated[
    Annotated[JsonBody, Tag("json")]
    | Annotated[FormBody, Tag("form")]
    | Annotated[TextBody, Tag("text")]
    | Annotated[DataBody, Tag("data")]
    | Annotated[Json, Tag("document")],
    Discriminator(_form_of),
]
"""The setting ``body``: a JSON document, or a mapping with a single member that names another form."""


class AnswerTest(Strict):
    """A test of a JSON answer: the value at a pointer must be one of the listed values."""

    pointer: Pointer = Field(description="JSON Pointer to a value in the answer")
    equals: Scalar = Field(None, description="the value")
    any_of: tuple[Scalar, ...] | None = Field(None, alias="in", description="the values")

    @model_validator(mode="after")
    def one_way(self) -> AnswerTest:
        if ("equals" in self.model_fields_set) == (self.any_of is not None):
            raise ValueError(
                "The test needs exactly one of equals and in. Cure: Set one of the two settings, and remove the other."
            )
        return self

    @property
    def values(self) -> tuple[Scalar, ...]:
        """Return the values that meet the test."""
        return (self.equals,) if self.any_of is None else self.any_of


class Success(Strict):
    """The answers that mean that the target has taken the event."""

    status: tuple[Annotated[Count, Field(ge=200, le=599)], ...] = Field(
        (), description="statuses of success, instead of 200 to 299"
    )
    body: AnswerTest | None = Field(
        None, description="a test that the JSON of the answer must meet"
    )
    dead_letter_if: AnswerTest | None = Field(
        None,
        description="a test of an answer that is no success; if it is met, the event is not retried",
    )


Missing = Literal["dead_letter", "omit"]


class RequestTemplates(Strict):
    """The request of a subscription, shaped for its target."""

    method: Literal["POST", "PUT", "PATCH", "DELETE"] = Field("POST", description="method")
    path: Text = Field(
        "", description="path after the path of sink: begins with a slash, a template"
    )
    query: Annotated[dict[str, Text], Field(max_length=MOST_FIELDS)] = Field(
        {}, description="parameters of the query, after those of sink: each value a template"
    )
    headers: Annotated[dict[HeaderName, Text], Field(max_length=MOST_FIELDS)] = Field(
        {}, description="headers: names in lower case, each value a template"
    )
    body: Body | None = Field(
        None,
        description="JSON whose strings are templates; or {form: {...}}, {text: ...}, {data: {pointer: ...}}, or "
        "{json: ...} for a document that looks like one of these. Without it: the data of the event; none with DELETE",
    )
    missing: Missing = Field(
        "dead_letter",
        description="what happens where the event lacks a value: dead_letter; or omit, which leaves out the "
        "member, parameter or header",
    )
    success: Success = Field(
        Success(), description="which answers are a success; without it, the rules of delivery"
    )

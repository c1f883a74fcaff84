"""Records and messages of a log, as answers show them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class RecordHeader(BaseModel):
    """A header. ``value`` is null if the header has no value or its value is not a string;
    ``typed`` then has it. A value that is not UTF-8 is in ``value_base64``."""

    name: str
    value: str | None = None
    value_base64: str | None = None
    typed: Any = Field(
        None, description="type of a RabbitMQ header that is not a string: a number, a table"
    )


class RecordView(BaseModel):
    """A record as it is on the wire: headers in their order, with repeats and nulls. A body that is
    not UTF-8 is in ``body_base64``; ``body`` null means no value."""

    headers: list[RecordHeader]
    body: str | None = None
    body_base64: str | None = None
    content_type: str | None = Field(None, description="the broker's own property, if it has one")
    message_id: str | None = Field(None, description="the broker's own property, if it has one")
    time_ms: int | None = Field(None, description="the producer's time, if the broker keeps it")


class MessageView(BaseModel):
    """A record of a log. ``event`` is the CloudEvent in the JSON format; ``mode`` and
    ``content_type`` name its stored form. A document in a format that Skybridge cannot read has
    ``attributes``, from its mirrored headers, and ``body_base64``. If the record is no
    CloudEvent, ``fault`` says why, and ``headers`` and ``body_base64`` show the unchanged
    record."""

    topic: str
    partition: int
    position: str
    time_ms: int
    key: str | None = Field(description="the key as text; see key_base64 if it is not UTF-8")
    key_base64: str | None = None
    mode: Literal["binary", "structured", "batch"] | None = None
    content_type: str | None = Field(
        None, description="format of the document; null in binary mode"
    )
    event: dict[str, Any] | None = None
    attributes: dict[str, str] | None = None
    foreign: list[tuple[str, str | None]] = Field([], description="headers beside the event")
    fault: str = ""
    headers: list[tuple[str, str | None]] = []
    body_base64: str | None = None
    record: RecordView | None = Field(
        None, description="only with raw=true, and only with the scope data"
    )
    withheld: Literal["", "masked", "data"] = Field(
        "",
        description="without the scope data: masked where server.admin.mask hides parts of the data, data "
        "where none of it is shown; then there are no keys and no headers either",
    )


class PageView(BaseModel):
    """A page of messages; ``next`` is the ``from`` of the next page."""

    messages: list[MessageView]
    next: str
    complete: bool = Field(description="true: the page reached the end of the topic")
    looked_at: int = Field(description="records read for this page, wanted or not")

"""Records and messages of a log, as answers show them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class RecordHeader(BaseModel):
    """A header of a record. ``value`` is null if the header has no value or a value that is not a string. A
    value of another type is in ``typed``, and bytes that are not UTF-8 are in ``value_base64``."""

    name: str = Field(description="name of the header")
    value: str | None = Field(None, description="value as text")
    value_base64: str | None = Field(None, description="value that is not UTF-8")
    typed: Any = Field(
        None,
        description="value of a RabbitMQ header that is not a string, such as a number or a table",
    )


class RecordView(BaseModel):
    """A record in its wire format. Headers are in their order, with repetitions and nulls. A body that is not
    UTF-8 is in ``body_base64``. ``body`` is null if the record has no value."""

    headers: list[RecordHeader] = Field(description="headers in their order")
    body: str | None = Field(None, description="body as text")
    body_base64: str | None = Field(None, description="body that is not UTF-8")
    content_type: str | None = Field(
        None, description="content type property of the broker, if it has one"
    )
    message_id: str | None = Field(
        None, description="message id property of the broker, if it has one"
    )
    time_ms: int | None = Field(
        None,
        description="time that the producer set, in ms since the epoch, if the broker stores it",
    )


class MessageView(BaseModel):
    """A record of a log, decoded. ``event`` is the CloudEvent in the JSON event format; ``mode`` and
    ``content_type`` describe its stored form.

    A document in a format that Skybridge cannot read has ``attributes``, from its headers, and
    ``body_base64``. If the record is not a CloudEvent, ``fault`` has the reason, and ``headers`` and
    ``body_base64`` have the unchanged record.
    """

    topic: str = Field(description="name of the topic")
    partition: int = Field(description="number of the partition")
    position: str = Field(description="position of the record in its partition")
    time_ms: int = Field(description="time of the record in its log, in ms since the epoch")
    key: str | None = Field(description="key as text; null if there is none or it is not UTF-8")
    key_base64: str | None = Field(None, description="key that is not UTF-8")
    mode: Literal["binary", "structured", "batch"] | None = Field(
        None, description="content mode of the record"
    )
    content_type: str | None = Field(
        None, description="media type of the document; null in binary mode"
    )
    event: dict[str, Any] | None = Field(
        None, description="the CloudEvent in the JSON event format"
    )
    attributes: dict[str, str] | None = Field(
        None, description="attributes from the headers of a document that cannot be read"
    )
    foreign: list[tuple[str, str | None]] = Field(
        [], description="headers that do not belong to the event"
    )
    fault: str = Field("", description="why the record is not a CloudEvent")
    headers: list[tuple[str, str | None]] = Field(
        [], description="headers of a record that is not a CloudEvent"
    )
    body_base64: str | None = Field(
        None, description="body of a record that is not a CloudEvent or cannot be read"
    )
    record: RecordView | None = Field(
        None, description="record in wire format; only with raw=true and the scope data"
    )
    withheld: Literal["", "masked", "data"] = Field(
        "",
        description="what a token without the scope data cannot see: masked if server.admin.mask hides parts of "
        "the data, data if all of it is hidden. Keys and headers are then hidden too",
    )


class PageView(BaseModel):
    """A page of messages. ``next`` is the value of ``from`` for the next page."""

    messages: list[MessageView] = Field(
        description="messages of the page, partition after partition"
    )
    next: str = Field(description="value of from for the next page")
    complete: bool = Field(description="true if the page reached the end of the topic")
    looked_at: int = Field(
        description="number of records read for this page, including unwanted ones"
    )

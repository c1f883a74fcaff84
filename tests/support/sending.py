"""Events in the form in which senders put them on the wire."""

from __future__ import annotations

BATCH = {"content-type": "application/cloudevents-batch+json"}
STRUCTURED = {"content-type": "application/cloudevents+json"}


def event_headers(id_: str, **attributes: str) -> dict[str, str]:
    """Return the attributes of an event as the headers of binary mode."""
    usual = {"specversion": "1.0", "id": id_, "source": "/s", "type": "t"}
    return {f"ce-{name}": text for name, text in {**usual, **attributes}.items()}

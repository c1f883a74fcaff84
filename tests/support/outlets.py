"""Outlets for tests: two events, and the compiled request of a ``request`` setting."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from app.event.value import AttributeType, CloudEvent, DataForm
from app.model.outlet_presets import RequestSetting
from app.model.secret import HIDDEN, FileSecret
from app.outlets.compiled import Outlet, compile_outlet
from app.outlets.request import ShapedRequest

DATA = b'{"order": {"id": "o/1", "n": 0}, "total": 199.90, "tags": ["a", 1], "none": null}'
EVENT = CloudEvent(
    {
        "specversion": "1.0", "id": "e1", "source": "/shop", "type": "com.example.order",
        "time": "2026-11-27T01:02:03.5+02:00", "count": "3", "datacontenttype": "application/json",
    },
    DATA, DataForm.JSON, {"count": AttributeType.INTEGER},
)  # fmt: skip
BARE = CloudEvent({"specversion": "1.0", "id": "e2", "source": "/shop", "type": "t"})
SETTING: TypeAdapter[Any] = TypeAdapter(RequestSetting)


def compiled(
    settings: dict[str, Any],
    sink: str = "https://t.example/v2",
    *,
    hidden: bool = False,
    limit: int = 1 << 20,
) -> Outlet:
    """Compile a ``request`` setting into an outlet; ``hidden`` puts asterisks in place of its
    secrets."""

    def reveal(secret: FileSecret) -> str:
        return HIDDEN if hidden else secret.get_secret_value()

    return compile_outlet(SETTING.validate_python(settings), sink, reveal, limit)


def shaped(settings: dict[str, Any], event: CloudEvent = EVENT, **more: Any) -> ShapedRequest:
    """Return the request that the settings make of an event."""
    return compiled(settings, **more).shape(event)

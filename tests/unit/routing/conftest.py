from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import pytest

from app.bindings.record import ContentMode, Decoded
from app.event.value import CloudEvent, DataForm

MakeEvent = Callable[..., CloudEvent]


@pytest.fixture
def event() -> MakeEvent:
    def make(
        data: bytes | None = b'{"order": {"id": "o-1"}}',
        form: DataForm = DataForm.JSON,
        **attributes: str,
    ) -> CloudEvent:
        base = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t.created"}
        return CloudEvent(MappingProxyType(base | attributes), data, form)

    return make


@pytest.fixture
def decoded(event: MakeEvent) -> Callable[..., Decoded]:
    return lambda **attributes: Decoded(event(**attributes), ContentMode.BINARY)

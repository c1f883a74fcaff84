"""The outlet of a subscription: its templates compiled, ready to shape requests and to judge answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.delivery.outcomes import AttemptOutcome
from app.delivery.target_url import read_url
from app.event.value import CloudEvent
from app.model.outlet import RequestTemplates
from app.model.outlet_presets import BATCHED, PresetRequest
from app.outlets.body import BodyTemplate, compile_json
from app.outlets.places import Compiler, RenderJson, Reveal
from app.outlets.presets import NDJSON, PRESETS, PublisherApi
from app.outlets.request import CompiledRequest, ShapedRequest, compile_request
from app.outlets.success import Judge, TargetAnswer, compile_success


class Conclusion(NamedTuple):
    """The meaning of an answer by the rules of its publisher.

    Attributes:
        outcomes: one for each event of the request, or one for all of them; None if only the general rules of
            delivery apply.
        wait: seconds that the answer asks to wait in its body; None if it does not.
    """

    outcomes: Sequence[AttemptOutcome] | None = None
    wait: int | None = None


class Outlet:
    """The shaped requests of one subscription.

    Attributes:
        batched: whether a request may have several events.
    """

    def __init__(
        self,
        template: CompiledRequest,
        judge: Judge | None,
        preset: PublisherApi | None,
        *,
        batched: bool,
    ) -> None:
        self._template = template
        self._judge = judge
        self._wait = None if preset is None else preset.wait
        self.batched = batched
        self.judges = judge is not None or self._wait is not None

    @property
    def pointers(self) -> list[tuple[str, str]]:
        """Return each pointer without a default, with its setting."""
        return [(value.pointer, value.setting) for value in self._template.values if value.pointer]

    def shape(self, event: CloudEvent) -> ShapedRequest:
        """Return the request of one event. Raises Unshapeable."""
        return self._template.shape(event)

    def piece(self, event: CloudEvent) -> bytes:
        """Return an event as a part of a request with several events. Raises Unshapeable."""
        return self._template.shape(event).message.body

    def join(self, pieces: Sequence[bytes]) -> ShapedRequest:
        """Return the request with the events whose parts ``piece`` returned."""
        return self._template.join(pieces)

    def conclude(self, answer: TargetAnswer, events: int) -> Conclusion:
        """Return what an answer to a request of so many events means."""
        outcomes = None if self._judge is None else self._judge(answer, events)
        return Conclusion(outcomes, None if self._wait is None else self._wait(answer))


def compile_outlet(
    settings: RequestTemplates | PresetRequest, sink: str, reveal: Reveal, limit: int
) -> Outlet:
    """Compile the setting ``request`` of a subscription.

    Args:
        settings: the setting.
        sink: the URL of the target.
        reveal: what to write for a secret.
        limit: most bytes of a request with one event.

    Raises:
        SetupError: a template cannot be compiled. It names the setting below the subscription.
    """
    if isinstance(settings, RequestTemplates):
        template = compile_request(settings, sink, reveal, limit)
        return Outlet(template, compile_success(settings.success), None, batched=False)
    preset = PRESETS[type(settings)]
    return Outlet(
        _template_of(settings, preset, sink, reveal, limit),
        preset.judge,
        preset,
        batched=isinstance(settings, BATCHED),
    )


def _template_of(
    settings: PresetRequest, preset: PublisherApi, sink: str, reveal: Reveal, limit: int
) -> CompiledRequest:
    compiler = Compiler(reveal)
    target = read_url(sink).target
    documents = [
        compile_json(document, compiler, "request", preset.markup)
        for document in preset.documents(settings)
    ]
    headers = [
        (name, compiler.header(text, f"request.{name}"))
        for name, text in preset.headers(settings).items()
    ]
    is_there = target.partition("?")[0].rstrip("/").endswith(preset.path)
    path, query = preset.target(settings, "" if is_there else preset.path)
    return CompiledRequest(
        "POST",
        target,
        path=compiler.path(path, "request.path"),
        query=query,
        headers=headers,
        body=BodyTemplate(_lines(documents, preset), preset.media_type),
        compiler=compiler,
        limit=limit,
    )


def _lines(documents: Sequence[RenderJson], preset: PublisherApi) -> RenderJson:
    """Return a function that renders all documents. In newline-delimited JSON, each is followed by a line end."""
    if preset.media_type != NDJSON:
        return documents[0]
    return lambda event: b"".join([document(event) + b"\n" for document in documents])

"""The shaped request of a subscription: method, path, query, headers and body of one event."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from app.bindings.http import HttpMessage
from app.delivery.target_url import read_url
from app.errors import Fault
from app.event.value import CloudEvent
from app.model.outlet import DataBody, DataPart, RequestTemplates
from app.outlets.body import BodyTemplate, compile_body, pairs
from app.outlets.places import Compiler, Render, Reveal, Text, Value, ValueAbsent
from app.outlets.values import ShapingEvent, Unshapeable

SPARE = 64 * 1024  # bytes that a request may have beyond the largest body of an event


class ShapedRequest(NamedTuple):
    """A request, ready for a client.

    Attributes:
        method: HTTP method.
        target: path and query of the request line.
        message: headers and body.
    """

    method: str
    target: str
    message: HttpMessage


class CompiledRequest:
    """The compiled request of a subscription.

    Args:
        method: HTTP method.
        target: the path and query of ``sink``.
        path: what follows that path.
        query: parameters that follow that query: names, and values by event.
        headers: names, and values by event.
        body: the body; None for none.
        compiler: the compiler of all these, which knows every placeholder.
        limit: most bytes of a request without its request line and HTTP's own headers.

    Attributes:
        values: all placeholders.
    """

    def __init__(
        self,
        method: str,
        target: str,
        *,
        path: str | Render,
        query: Sequence[tuple[str, str | Render]],
        headers: Sequence[tuple[str, str | Render]],
        body: BodyTemplate | None,
        compiler: Compiler,
        limit: int,
    ) -> None:
        self._method = method
        self._path, _, self._query = target.partition("?")
        self._behind = path
        self._parameters = query
        self._headers = headers
        self._has_type = any(name == "content-type" for name, _ in headers)
        self._body = body
        self._omits = compiler.omits
        self.values = tuple(compiler.values)
        self._limit = limit
        fixed = isinstance(path, str) and all(isinstance(value, str) for _, value in query)
        self._target = self._target_of(_NO_EVENT) if fixed else None
        typed = body is None or self._has_type or body.content_type is not None
        fixed = typed and all(isinstance(value, str) for _, value in headers)
        made = self._headers_of(_NO_EVENT) if fixed else []
        self._names = tuple([name for name, _ in made]) if fixed else None
        self._texts = tuple([text for _, text in made])

    def shape(self, event: CloudEvent) -> ShapedRequest:
        """Return the request of an event.

        Raises:
            Unshapeable: the event lacks values, all of which are listed; or a value does not fit its place; or the
                request is too large.
        """
        view = ShapingEvent(event)
        try:
            target = self._target or self._target_of(view)
            body = b"" if self._body is None else self._body.render(view)
            if self._names is not None:
                message = HttpMessage(self._names, self._texts, body)
            else:
                message = HttpMessage.of(self._headers_of(view), body)
        except ValueAbsent as absent:
            raise lacking(self.values, view, str(absent.args[0])) from None
        size = len(body) + len(target) + sum(map(len, message.values))
        if size > self._limit:
            detail = f"The request would have {size} bytes; the most is {self._limit}."
            raise Unshapeable(detail, "request")
        return ShapedRequest(self._method, target, message)

    def join(self, bodies: Sequence[bytes]) -> ShapedRequest:
        """Return one request with several bodies one after another. Only the bodies may depend on an event."""
        message = HttpMessage.of(self._headers_of(_NO_EVENT), b"".join(bodies))
        return ShapedRequest(self._method, self._target or self._target_of(_NO_EVENT), message)

    def _target_of(self, event: ShapingEvent) -> str:
        behind = self._behind if isinstance(self._behind, str) else self._behind(event)
        path = self._path.removesuffix("/") + behind if behind else self._path
        own = [self._query] if self._query else []
        query = "&".join([*own, *pairs(self._parameters, event, omits=self._omits)])
        return f"{path}?{query}" if query else path

    def _headers_of(self, event: ShapingEvent) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        if self._body is not None and not self._has_type:
            found.append(("Content-Type", self._body.type_of(event.event)))
        for name, value in self._headers:
            try:
                found.append((name, value if isinstance(value, str) else value(event)))
            except ValueAbsent:
                if not self._omits:
                    raise
        return found


_NO_EVENT = ShapingEvent(CloudEvent({}))


def lacking(values: Sequence[Value], event: ShapingEvent, setting: str) -> Unshapeable:
    """Return the error for an event that lacks values: it lists every placeholder that has none."""
    faults = [
        Fault("missing-value", f"The event has no value for {value.text}.", value.setting)
        for value in values
        if value.find(event) is None
    ]
    error = Unshapeable(f"The event has no text for a placeholder of {setting}.", setting)
    if faults:
        error.faults = tuple(faults)
    return error


def compile_request(
    settings: RequestTemplates, sink: str, reveal: Reveal, limit: int
) -> CompiledRequest:
    """Compile the setting ``request`` of a subscription.

    Args:
        settings: the setting.
        sink: the URL of the target.
        reveal: what to write for a secret.
        limit: most bytes of a request.

    Raises:
        SetupError: a template cannot be compiled. It names the setting below the subscription.
    """
    compiler = Compiler(reveal, settings.missing)
    body = settings.body
    if body is None and settings.method != "DELETE":
        body = DataBody(data=DataPart())
    return CompiledRequest(
        settings.method,
        read_url(sink).target,
        path=compiler.path(settings.path, "request.path"),
        query=_each(
            settings.query, compiler.query, "request.query", lambda name: quote(name, safe="")
        ),
        headers=_each(settings.headers, compiler.header, "request.headers", str),
        body=None if body is None else compile_body(body, compiler, "request.body"),
        compiler=compiler,
        limit=limit,
    )


def _each(
    texts: Mapping[str, Text],
    compile_text: Callable[[Text, str], str | Render],
    setting: str,
    spell: Callable[[str], str],
) -> list[tuple[str, str | Render]]:
    return [(spell(name), compile_text(text, f"{setting}.{name}")) for name, text in texts.items()]

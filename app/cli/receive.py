"""``skybridge receive`` runs a webhook that prints its requests, and fails on demand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from app.cli import keys, options, printing, values
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.cli.receiver import Arrival, Reply
    from app.delivery.verifying import Verification
    from app.model.signing_key import SigningKey

    Show = Callable[[int, Arrival, Reply, Verification | None], None]
    """Print a request, its reply, and the verdict about its signature if keys are given."""

_UNAUTHORIZED = 401


@verb(
    "receive",
    "skybridge receive",
    "skybridge receive --fail-first 3 --retry-after 2  # retries and Retry-After at work",
    "skybridge receive --status 415  # everything becomes a dead letter",
    "skybridge receive --secret-file billing.secret  # refuse what is not signed by this key",
)
def run(
    host: Annotated[str, option("Listen on this address.")] = "127.0.0.1",
    port: Annotated[
        int, option("Listen on this port; 0 takes a free port.", "-p", min=0, max=65535)
    ] = 9000,
    status: Annotated[int, option("Answer with this HTTP status.", min=200, max=599)] = 204,
    fail_first: Annotated[
        int,
        option(
            "Answer the first requests with the status of --fail-status. The value is the number of requests; 0 means none.",
            min=0,
        ),
    ] = 0,
    fail_status: Annotated[
        int, option("Answer the requests of --fail-first with this HTTP status.", min=300, max=599)
    ] = 503,
    retry_after: Annotated[
        str,
        option(
            "Send the header Retry-After with this value in each answer of --fail-first: seconds or an HTTP date; by default no header.",
            callback=values.retry_after,
        ),
    ] = "",
    limit: Annotated[int, option("Stop after this many requests; 0: never.", min=0)] = 0,
    show_data: Annotated[
        bool,
        option(
            "Print the data of each event; --no-data prints the attributes alone.",
            "--data/--no-data",
        ),
    ] = True,
    secret_file: Annotated[
        list[Path] | None,
        option(
            "Verify each signature with the key in this file, and answer 401 to a wrong signature; may be repeated."
        ),
    ] = None,
    as_json: Annotated[bool, option("Print one JSON object per request.", "--json")] = False,
) -> None:
    """Run a webhook that prints the requests it receives.

    The webhook accepts every handshake. With the options it answers with errors, so that you can
    try retries, pauses and dead letters.
    """
    import asyncio

    if not fail_first:
        options.refuse_ineffective("no answer of --fail-first is asked for", "fail_status")
        if is_success(status):
            options.refuse_ineffective("every answer is a success", "retry_after")
    if as_json:
        options.refuse_ineffective("--json prints whole requests", "show_data")
    answer = reply_function(status, fail_first, fail_status, retry_after)
    show = _show_json if as_json else _show(show_data)
    known = keys.read_keys(keys.texts_of("--secret-file", secret_file or ()))
    check = (lambda arrival: _verification(arrival, known)) if known else None
    asyncio.run(_listen(host, port, answer, show, limit, check, as_json=as_json))


def is_success(status: int) -> bool:
    return 200 <= status < 300  # noqa: PLR2004 - 2xx


def reply_function(
    status: int, fail_first: int, fail_status: int, retry_after: str
) -> Callable[[int], Reply]:
    """Return the function that chooses the reply to request number N, counted from 1."""
    from app.cli.receiver import Reply

    def answer(number: int) -> Reply:
        code = fail_status if number <= fail_first else status
        waits = retry_after and not is_success(code)
        return Reply(code, ((b"retry-after", retry_after.encode()),) if waits else ())

    return answer


def _verification(arrival: Arrival, known: Sequence[SigningKey]) -> Verification:
    """Return the verdict about the signature of a request."""
    from app.delivery.verifying import verify
    from app.interfaces.clock import SystemClock

    headers = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in arrival.headers]
    return verify(headers, arrival.body, known, SystemClock().now())


async def _listen(
    host: str,
    port: int,
    answer: Callable[[int], Reply],
    show: Show,
    limit: int,
    check: Callable[[Arrival], Verification] | None,
    *,
    as_json: bool,
) -> None:
    from app.cli.receiver import Receiver, Reply
    from app.gateway.server import HttpServer
    from app.runtime.signals import Signals

    count = 0

    def on_arrival(arrival: Arrival) -> Reply:
        nonlocal count
        count += 1
        verdict = None if check is None else check(arrival)
        reply = answer(count) if verdict is None or verdict.valid else Reply(_UNAUTHORIZED)
        show(count, arrival, reply, verdict)
        if count == limit:
            signals.leave()
        return reply

    server = HttpServer(Receiver(on_arrival), host=host, port=port, settings="--{}")
    with Signals() as signals:
        await server.start()
        if as_json:
            printing.json_line({"listening": server.url})
        else:
            printing.err().print(f"receiving at [bold]{server.url}[/]  (Ctrl+C ends)")
        await signals.asked.wait()
        await server.stop(drain=1.0)


def _show(show_data: bool) -> Show:
    from rich.markup import escape

    console = printing.out()

    def show(
        number: int, arrival: Arrival, reply: Reply, verdict: Verification | None = None
    ) -> None:
        colour = "green" if is_success(reply.status) else "yellow"
        path = escape(printing.escape_line(arrival.path))
        console.print(f"[dim]{number}[/] {path} [{colour}]{reply.status}[/]")
        if verdict is not None:
            mark = "[green]valid[/]" if verdict.valid else "[red]invalid[/]"
            console.print(f"  signature {mark}: {escape(verdict.why)}")
        if arrival.fault:
            console.print(f"  [red]no CloudEvent[/] {escape(arrival.fault)}")
        for each in arrival.events:
            for name, text in each.event.attributes.items():
                console.print(f"  [cyan]{escape(name)}[/]: {escape(text)}")
            if each.opaque:
                size = len(each.document or b"")
                console.print(
                    f"  [yellow]{escape(each.media_type or '')}[/] {size} bytes, not read"
                )
            elif show_data and each.event.data is not None:
                text = each.event.data.decode("utf-8", "backslashreplace")
                console.print(f"  {escape(printing.escape_lines(text))}")

    return show


def _show_json(
    number: int, arrival: Arrival, reply: Reply, verdict: Verification | None = None
) -> None:
    signature = None if verdict is None else {"valid": verdict.valid, "why": verdict.why}
    printing.json_line(
        {
            "number": number,
            "path": arrival.path,
            "status": reply.status,
            "fault": arrival.fault or None,
            "signature": signature,
            "headers": [
                [name.decode("latin-1"), value.decode("latin-1")] for name, value in arrival.headers
            ],
            "events": [
                {
                    "mode": each.mode.value,
                    "content_type": each.media_type,
                    "attributes": each.event.attributes,
                    "data_base64": _base64(each.event.data),
                    **({"document_base64": _base64(each.document)} if each.opaque else {}),
                }
                for each in arrival.events
            ],
        }
    )


def _base64(content: bytes | None) -> str | None:
    import base64

    return None if content is None else base64.b64encode(content).decode()

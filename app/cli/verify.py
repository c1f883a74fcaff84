"""``skybridge verify`` checks the signature of a webhook request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, keys, options, printing
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from app.model.signing_key import SigningKey

_STDIN = Path("-")
_TOLERANCE = 300.0


@verb(
    "verify",
    'skybridge verify --key "$(cat billing.secret)" request.txt',
    "skybridge verify --key-file billing.secret --headers head.txt --body body.json",
)
def run(
    request: Annotated[
        Path,
        typer.Argument(
            help="Verify the request in this file: header lines, an empty line, the body; - reads standard input."
        ),
    ] = _STDIN,
    headers: Annotated[
        Path | None, option("Read the header lines from this file, instead of a whole request.")
    ] = None,
    body: Annotated[
        Path | None, option("Read the body from this file, byte for byte; requires --headers.")
    ] = None,
    key: Annotated[
        list[str] | None,
        option(
            "Verify with this key, which begins with whsec_ or whpk_; may be repeated while keys are rotated."
        ),
    ] = None,
    key_file: Annotated[
        list[Path] | None, option("Verify with the key in this file; may be repeated.")
    ] = None,
    tolerance: Annotated[
        float, option("Allow clocks to differ by this many seconds.", min=0)
    ] = _TOLERANCE,
    at: Annotated[
        float | None,
        option("Verify as at this time, in seconds since 1970; by default the present time."),
    ] = None,
    json_output: Annotated[bool, option("Print one JSON document.", "--json")] = False,
) -> None:
    """Verify the signature of a webhook request.

    The signature is one of Standard Webhooks, v1 or v1a. The command prints whether the signature
    is valid and why, and exits with 1 if it is invalid.
    """
    from app.delivery.verifying import verify
    from app.interfaces.clock import SystemClock

    if (headers is None) != (body is None):
        printing.fail(
            "--headers and --body work only together.", cure="Add the other one.", code=exits.SETUP
        )
    if headers is not None and body is not None:
        options.refuse_ineffective("--headers and --body have the request", "request")
        lines, content = _header_lines(options.content(headers)), options.content(body)
    else:
        lines, content = _split_request(options.content(request))
    now = SystemClock().now() if at is None else at
    verdict = verify(lines, content, _keys(key or [], key_file or []), now, tolerance)
    if json_output:
        printing.json_line({"valid": verdict.valid, "why": verdict.why})
    else:
        printing.text_line(f"{'valid' if verdict.valid else 'invalid'}: {verdict.why}")
    if not verdict.valid:
        raise typer.Exit(exits.FAILED)


def _keys(texts: Sequence[str], files: Sequence[Path]) -> list[SigningKey]:
    """Return the verification keys of the options, or end the command if one is malformed."""
    if not texts and not files:
        printing.fail(
            "--key is missing.", cure="Add --key whsec_... or --key-file FILE.", code=exits.SETUP
        )
    named = [(f"--key {number}", text) for number, text in enumerate(texts, start=1)]
    return keys.read_keys([*named, *keys.texts_of("--key-file", files)])


def _split_request(whole: bytes) -> tuple[list[tuple[str, str]], bytes]:
    """Split a request into header lines and body. Line ends are CRLF or LF."""
    ends = [(whole.find(end), end) for end in (b"\r\n\r\n", b"\n\n") if end in whole]
    if not ends:
        printing.fail(
            "The request has no empty line between headers and body.",
            cure="Insert one, or use --headers and --body.",
            code=exits.SETUP,
        )
    _, end = min(ends)
    head, _, body = whole.partition(end)
    return _header_lines(head), body


def _header_lines(head: bytes) -> list[tuple[str, str]]:
    """Return names and values of header lines. A line without a colon, such as the request line, is
    skipped.
    """
    found = []
    for line in head.decode("latin-1").splitlines():
        name, colon, value = line.partition(":")
        if colon and " " not in name:
            found.append((name.strip(), value.strip()))
    return found

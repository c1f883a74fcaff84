"""``skybridge verify``: whether a request that arrived was signed by the one we think."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import exits, options, printing
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from app.model.signing_key import SigningKey

_STDIN = Path("-")
_WITHOUT_END = 300.0


@verb(
    "verify",
    'skybridge verify --key "$(cat billing.secret)" request.txt',
    "skybridge verify --key-file billing.secret --headers head.txt --body body.json",
)
def run(
    request: Annotated[
        Path, typer.Argument(help="A request: header lines, an empty line, the body. - is stdin.")
    ] = _STDIN,
    headers: Annotated[Path | None, option("Only header lines, instead of a request.")] = None,
    body: Annotated[Path | None, option("Only the body, byte for byte; with --headers.")] = None,
    key: Annotated[
        list[str] | None, option("whsec_ or whpk_; may be repeated while keys are rotated.")
    ] = None,
    key_file: Annotated[list[Path] | None, option("A file that holds only a key.")] = None,
    tolerance: Annotated[
        float, option("Seconds by which clocks may differ.", min=0)
    ] = _WITHOUT_END,
    at: Annotated[float | None, option("Check as of this time, seconds since 1970.")] = None,
    json_output: Annotated[bool, option("One JSON document.", "--json")] = False,
) -> None:
    """Verify the signature of a webhook request (Standard Webhooks v1 and v1a), and print the reason."""
    from app.delivery.verifying import verify
    from app.runtime.clock import SystemClock

    if (headers is None) != (body is None):
        printing.fail("give --headers and --body together.", code=exits.SETUP)
    if headers is not None and body is not None:
        lines, content = _lines(options.content(headers)), options.content(body)
    else:
        lines, content = _parted(options.content(request))
    now = SystemClock().now() if at is None else at
    verdict = verify(lines, content, _keys(key or [], key_file or []), now, tolerance)
    if json_output:
        printing.json_line({"valid": verdict.valid, "why": verdict.why})
    else:
        printing.text_line(f"{'valid' if verdict.valid else 'invalid'}: {verdict.why}")
    if not verdict.valid:
        raise typer.Exit(exits.FAILED)


def _keys(texts: Sequence[str], files: Sequence[Path]) -> list[SigningKey]:
    from app.model.signing_key import read_key

    texts_of: Mapping[str, str] = {
        **{f"--key {number}": text for number, text in enumerate(texts, start=1)},
        **{
            f"--key-file {file}": options.content(file).decode("utf-8", "replace") for file in files
        },
    }
    if not texts_of:
        printing.fail("no key to verify with is given.", cure="--key whsec_...", code=exits.SETUP)
    keys = []
    for name, text in texts_of.items():
        try:
            keys.append(read_key(text.strip()))
        except ValueError as error:
            printing.fail(f"{name} {error}.", code=exits.SETUP)
    return keys


def _parted(whole: bytes) -> tuple[list[tuple[str, str]], bytes]:
    """Head and body of a request as it was on the wire, or with plain line ends."""
    ends = [(whole.find(end), end) for end in (b"\r\n\r\n", b"\n\n") if end in whole]
    if not ends:
        printing.fail("The request has no empty line between headers and body.", code=exits.SETUP)
    _, end = min(ends)
    head, _, body = whole.partition(end)
    return _lines(head), body


def _lines(head: bytes) -> list[tuple[str, str]]:
    """A line without a colon, such as the request line, is no header."""
    found = []
    for line in head.decode("latin-1").splitlines():
        name, colon, value = line.partition(":")
        if colon and " " not in name:
            found.append((name.strip(), value.strip()))
    return found

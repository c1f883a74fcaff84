"""``skybridge schema``, ``openapi`` and ``asyncapi`` write documents to a file or print them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from app.cli import exits, keys, options, printing
from app.cli.verbs import option, verb

if TYPE_CHECKING:
    from collections.abc import Mapping

Out = Annotated[
    Path | None, option("Write to this file; by default to standard output.", "--out", "-o")
]


@verb(
    "schema",
    "skybridge schema > skybridge.schema.json",
    "# then make this the first line of the YAML file:",
    "# yaml-language-server: $schema=skybridge.schema.json",
)
def schema() -> None:
    """Print the JSON Schema of the configuration file."""
    from app.config.model import schema

    _write(schema.schema(), None)


@verb("openapi", "skybridge openapi --out openapi/openapi.json")
def openapi(out: Out = None) -> None:
    """Print the OpenAPI document of both listeners.

    It is an OpenAPI 3.1 description of the events listener and the admin listener.
    """
    from app.api.app import document, skeleton

    _write(document(skeleton()), out)


@verb(
    "asyncapi",
    "skybridge asyncapi --config skybridge.yaml --out asyncapi.json",
    "skybridge asyncapi --config skybridge.yaml | jq '.channels | keys'",
)
def asyncapi(
    config: Annotated[
        Path | None,
        option(
            "Describe this configuration file; by default the configuration that `skybridge serve` uses without a file.",
            "-c",
        ),
    ] = None,
    out: Out = None,
) -> None:
    """Print an AsyncAPI document of a configuration.

    In this AsyncAPI 3 document brokers are servers, and topics are channels. Routes and
    subscriptions are operations, and events in each content mode are messages. The document
    contains no credentials, and no subscriptions that the API created. For the HTTP interface, see
    skybridge openapi.
    """
    from app.config.asyncapi import document

    _write(document(options.configuration(config)), out)


def _write(document: Mapping[str, object], out: Path | None) -> None:
    import json

    text = json.dumps(document, indent=2) + "\n"
    if out is None:
        print(text, end="")
        return
    try:
        out.write_text(text)
    except OSError as failure:
        printing.fail(
            f"--out {out} cannot be written: {failure.strerror}.",
            cure=keys.WRITABLE,
            code=exits.SETUP,
        )

"""``skybridge init`` writes a first configuration file from a few answers.

answers   pure: read an answer, or give the reason for a refusal
questions ask in a terminal, until each answer is good
files     write the secrets and the configuration
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from app.cli import exits, printing
from app.cli.verbs import option, verb


@verb(
    "init",
    "skybridge init                                  # asks four questions",
    "skybridge init --yes                            # asks none: the embedded log, local senders",
    "skybridge init shop.yaml --broker kafka --address kafka-1:9092",
    "skybridge init shop.yaml --senders key,github --deliver https://billing.example/hook --signed",
)
def run(
    file: Annotated[Path, typer.Argument(help="Write the configuration to this new file.")] = Path(
        "skybridge.yaml"
    ),
    broker: Annotated[
        str | None,
        option(
            "Store the events in this kind of broker; by default embedded.",
            metavar="embedded|kafka|rabbitmq|pulsar",
        ),
    ] = None,
    address: Annotated[
        str | None,
        option("Connect to the broker at this address; by default its usual port on this machine."),
    ] = None,
    senders: Annotated[
        str | None,
        option(
            "Accept these senders, joined by commas: local (programs on this machine), key (programs with an API key), "
            "github, gitlab, stripe, slack, shopify, standard_webhooks; by default local.",
            metavar="SENDERS",
        ),
    ] = None,
    deliver: Annotated[
        str | None,
        option(
            "Deliver the events to this webhook; pull: consumers fetch them; by default nowhere.",
            metavar="URL|pull|nowhere",
        ),
    ] = None,
    signed: Annotated[
        bool | None,
        option("Sign the requests to the webhook; by default signed.", "--signed/--unsigned"),
    ] = None,
    yes: Annotated[
        bool,
        option("Ask nothing: use the default of each option that is not given.", "--yes", "-y"),
    ] = False,
) -> None:
    """Write a commented configuration file.

    In a terminal the command asks for each option that is not given: which broker, which senders, where to deliver,
    signed or not. It then checks the file as skybridge check does, and offers to run it. Elsewhere it asks nothing.
    Each secret is made and written into a file that only its owner can read (mode 0600). An existing file is never
    overwritten.
    """
    from app.cli import check
    from app.cli.init import files, questions

    given = questions.Given(broker, address, senders, deliver, signed)
    files.require_new(file)
    asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    choices = questions.choices(file, given, asks=asks)
    files.write(choices)
    if check.report(file):
        raise typer.Exit(exits.FAILED)
    if asks and questions.confirm("Run it now?"):
        _serve(file)
    printing.err().print(f"next: skybridge serve --config {shlex.quote(str(file))}", markup=False)


def _serve(file: Path) -> NoReturn:
    """Replace this process by the service, which then has its memory to itself."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "app", "serve", "--config", str(file)])  # noqa: S606

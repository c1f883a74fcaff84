"""Ask the questions of ``skybridge init`` in a terminal, each until its answer is good."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import structs

from app.cli import exits, printing
from app.cli.init import answers
from app.cli.init.answers import NOWHERE, BadAnswer
from app.config.starter.choices import ADDRESSES, LOCAL, StarterChoices
from app.config.starter.trial import first_error

T = TypeVar("T")


class Given(NamedTuple):
    """The options of the command; None is an option that was not given."""

    broker: str | None
    address: str | None
    senders: str | None
    deliver: str | None
    signed: bool | None


class Question(NamedTuple):
    """A question with its answers, one on each line, and the option that answers it too."""

    option: str
    text: str
    default: str


BROKER = Question(
    "--broker",
    """1/4  Which broker stores the events?
       embedded   the durable log inside Skybridge: nothing to install
       kafka      Apache Kafka
       rabbitmq   RabbitMQ
       pulsar     Apache Pulsar""",
    "embedded",
)
SENDERS = Question(
    "--senders",
    """2/4  Who sends events? Join several by commas.
       local      programs on this machine, without a key
       key        programs with an API key, which is made now
       github     GitHub, by its webhooks; also gitlab, stripe, slack, shopify, standard_webhooks""",
    LOCAL,
)
DELIVER = Question(
    "--deliver",
    """3/4  Where are the events delivered?
       URL        a webhook; http://127.0.0.1:9000/hook is where skybridge receive listens
       pull       consumers fetch them
       nowhere    they are stored, and subscriptions come later""",
    NOWHERE,
)
SIGNED = Question("--signed", "4/4  Are the requests to the webhook signed? yes or no", "yes")


def choices(file: Path, given: Given, *, asks: bool) -> StarterChoices:
    """Return the choices of a user, from the options and the answers. If ``asks`` is False, the command ends at a bad
    option, and uses the default for each option that is not given.
    """
    asked = _Asked(asks)
    chosen = StarterChoices(
        file=str(file), broker=asked.answer(BROKER, given.broker, answers.broker)
    )
    chosen = _with_address(chosen, given.address, asked)
    senders = asked.answer(SENDERS, given.senders, answers.senders)
    chosen = structs.replace(chosen, senders=senders)
    sink = asked.answer(DELIVER, given.deliver, lambda text: _sink(chosen, text))
    chosen = structs.replace(chosen, sink=sink)
    if not chosen.is_webhook:
        if given.signed is not None:
            printing.fail(
                "--signed does not apply, because only requests to a webhook are signed.",
                cure="Give --deliver the URL of a webhook, or remove --signed.",
                code=exits.SETUP,
            )
        return chosen
    signed = None if given.signed is None else "yes" if given.signed else "no"
    return structs.replace(chosen, signed=asked.answer(SIGNED, signed, answers.truth))


def confirm(text: str) -> bool:
    """Ask a question that yes is the default answer of."""
    return _Asked(asks=True).answer(Question("", text, "yes"), None, answers.truth)


def _with_address(chosen: StarterChoices, given: str | None, asked: _Asked) -> StarterChoices:
    if chosen.broker == "embedded":
        if given is not None:
            printing.fail(
                "--address does not apply, because the embedded log is inside Skybridge.",
                cure="Remove --address, or name another --broker.",
                code=exits.SETUP,
            )
        return chosen

    def read(text: str) -> StarterChoices:
        return _tried(structs.replace(chosen, address=text), "brokers.")

    text = f"     Where is {chosen.broker}?"
    return asked.answer(Question("--address", text, ADDRESSES[chosen.broker]), given, read)


def _sink(chosen: StarterChoices, text: str) -> str:
    return _tried(structs.replace(chosen, sink=answers.sink(text)), "subscriptions[").sink


def _tried(chosen: StarterChoices, section: str) -> StarterChoices:
    """Return the choices, or raise BadAnswer if the file that they make has an error in this section."""
    fault = first_error(chosen, section, os.environ)
    if fault is not None:
        raise BadAnswer(fault.message, fault.cure)
    return chosen


class _Asked:
    """Answers from options, from a terminal, and from defaults."""

    def __init__(self, asks: bool) -> None:
        self._asks = asks
        if asks:
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401 - input() then edits the line

    def answer(self, question: Question, given: str | None, read: Callable[[str], T]) -> T:
        """Return the answer to a question as ``read`` returns it.

        Args:
            question: what is asked.
            given: the value of the option, or None.
            read: reads an answer, or raises BadAnswer.
        """
        if given is not None:
            return _of_option(question.option, given, read)
        if not self._asks:
            return read(question.default)
        print(question.text)
        while True:
            try:
                return read(input(f"     [{question.default}] > ").strip() or question.default)
            except BadAnswer as why:
                printing.print_error(*why.args)
            except EOFError:
                print()
                printing.fail("The questions have no answer, so nothing was written.")


def _of_option(option: str, given: str, read: Callable[[str], T]) -> T:
    try:
        return read(given.strip())
    except BadAnswer as why:
        message, cure = why.args
        printing.fail(f"{option}: {message}", cure=cure, code=exits.SETUP)

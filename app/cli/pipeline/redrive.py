"""``skybridge pipeline redrive`` decodes quarantined records again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.pipeline import next_step
from app.cli.pipeline.group import Json, load_configuration, open_lake, verb
from app.cli.verbs import option

if TYPE_CHECKING:
    from app.config.model.config import Config
    from app.interfaces import Log
    from app.pipeline.redrive import Batch, RedriveRequest, RedriveResult, Send

_OWN = "topic"


@verb(
    "redrive",
    "skybridge pipeline redrive --dry-run",
    "skybridge pipeline redrive --only-rule missing-attribute --limit 1000",
    "skybridge pipeline redrive --to topic --yes",
    "skybridge pipeline redrive --to main/orders.again --json",
)
def run(
    config: ConfigFile = None,
    only_rule: Annotated[
        list[str] | None,
        option(
            "Redrive only records that were quarantined for this broken rule, such as missing-attribute; may be repeated; by default all records."
        ),
    ] = None,
    limit: Annotated[int, option("Redrive at most this many records; 0: all.", min=0)] = 0,
    to: Annotated[
        str,
        option(
            "Also send the records to this target, written as BROKER/TOPIC. The value topic sends each record to its own topic; by default "
            "only decode them."
        ),
    ] = "",
    dry_run: Annotated[bool, option("Only count the records; change nothing.")] = False,
    yes: Annotated[bool, option("Do not ask for confirmation before sending.")] = False,
    as_json: Json = False,
) -> None:
    """Decode quarantined records again.

    A newer release of Skybridge may accept records that an older one refused. The command adds the
    events of these records to the lake, and duplicates no event. With --to, it also sends the
    original records at least once, with a header skybridge-redrive. Stop the archive while this
    command runs.
    """
    from app.pipeline.redrive import RedriveRequest

    settings = load_configuration(config)
    send = _send(settings, to) if to else None
    wanted = RedriveRequest(tuple(only_rule or ()), limit)
    if send is not None and not (dry_run or yes):
        typer.confirm(
            f"Send the records that can be decoded now to {_named(to)}?", abort=True, err=True
        )
    found = _done(settings, wanted, send, dry_run=dry_run, quiet=as_json)
    _print_result(found, as_json, dry_run)
    if not as_json:
        from app.features.lake.settings import lake_of

        then = ("redrive",) if dry_run and found.taken else ()
        next_step.print_next_step(lake_of(settings), config, *then)


def _done(
    config: Config, wanted: RedriveRequest, send: Send | None, *, dry_run: bool, quiet: bool
) -> RedriveResult:
    """Redrive the wanted records and return the result. With ``dry_run``, only count these records."""
    from app.pipeline.redrive import preview_redrive, redrive
    from app.spark.cleanup import cleaning_up

    session, lake = open_lake(config, "redrive", quiet=quiet, brief=True)
    with cleaning_up(session.stop):
        if dry_run:
            return preview_redrive(session, lake, wanted)
        if quiet:
            return redrive(session, lake, wanted, send=send)
        with printing.err().status("decoding the records in quarantine", spinner="line") as status:
            return redrive(session, lake, wanted, send=send, observe=status.update)


def _named(to: str) -> str:
    return "their own topics" if to == _OWN else to


def _send(config: Config, to: str) -> Send:
    """Return the function that sends the redriven records to ``to``.

    Raises:
        SetupError: If ``to`` is not a valid target. The check is made before Spark starts.
    """
    import asyncio

    from app.errors import SetupError
    from app.features.lake.replay import target_log

    broker, _, topic = to.partition("/")
    if to != _OWN:
        if not (broker and topic):
            raise SetupError(
                f"{to!r} is not a target.",
                setting="--to",
                cure="Write --to topic, or --to BROKER/TOPIC.",
            )
        target_log(config, broker)

    def send(batches: Iterable[Batch]) -> Mapping[str, int]:
        return asyncio.run(_all(config, batches, None if to == _OWN else (broker, topic)))

    return send


async def _all(
    config: Config, batches: Iterable[Batch], place: tuple[str, str] | None
) -> Mapping[str, int]:
    """Send the records to ``place``, or for None each to its own topic. Return the number of
    refused records by reason.
    """
    from app.features.lake.replay import target_log
    from app.interfaces.clock import SystemClock
    from app.pipeline.replay.topic import REDRIVEN, TopicOutlet, writer

    refused: Counter[str] = Counter()
    logs: dict[str, Log] = {}
    write = writer("recorded", "1", REDRIVEN)
    try:
        for broker, topic, records in batches:
            name, target = place or (broker, topic)
            if name not in logs:
                logs[name] = target_log(config, name)
                await logs[name].start()
            refused.update(
                await TopicOutlet(logs[name], target, write, SystemClock()).send(records)
            )
    finally:
        for log in logs.values():
            await log.stop()
    return refused


def _print_result(found: RedriveResult, as_json: bool, dry_run: bool) -> None:
    if as_json:
        printing.json_line(found)
        return
    rows = [(each.rule or "-", each.records, each.decode) for each in found.rules]
    printing.print_table(("rule", "records", "decode now"), rows)
    if dry_run:
        printing.text_line(f"{printing.counted(found.taken, 'record')} would be redriven")
        return
    printing.text_line(
        f"redriven: {printing.counted(found.taken, 'record')}, of which {printing.counted(found.events, 'new event')}"
    )
    if found.refused:
        printing.print_table(("not sent", "records"), list(found.refused.items()))

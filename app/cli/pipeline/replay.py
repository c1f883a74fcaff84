"""``skybridge pipeline replay`` sends records of the lake again."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from app.cli import exits, options, printing, values
from app.cli.options import ConfigFile
from app.cli.pipeline import next_step
from app.cli.pipeline.group import Json, load_configuration, moment, open_lake, verb
from app.cli.verbs import option

if TYPE_CHECKING:
    from app.config.model.config import Config
    from app.pipeline.replay.chosen import ChosenRecords
    from app.pipeline.replay.notes import ReplayNotes
    from app.pipeline.replay.plan import LakeReplayOrder, LakeReplayPlan
    from app.pipeline.replay.run import ReplayResult
    from app.pipeline.replay.topic import ReplayWriter
    from app.pipeline.settings import Lake
    from app.spark.session import SparkSession

_URL = "http://127.0.0.1:8080/events"
_MANY = "Send only events with this {}, or a prefix followed by *; may be repeated; by default all."


class RecordSelection(NamedTuple):
    """The options that select records of the lake; by default all."""

    since: Annotated[
        str,
        option(
            "Send records from this time on, such as 2026-01-01T00:00:00Z; by default all.",
            "--from",
        ),
    ] = ""
    until: Annotated[
        str, option("Send records before this time, in the same form as --from; by default all.")
    ] = ""
    topics: Annotated[
        list[str] | None,
        option("Send only records of this topic; may be repeated; by default all.", "--topic"),
    ] = None
    types: Annotated[list[str] | None, option(_MANY.format("type"), "--type")] = None
    sources: Annotated[list[str] | None, option(_MANY.format("source"), "--source")] = None
    subjects: Annotated[list[str] | None, option(_MANY.format("subject"), "--subject")] = None
    sql: Annotated[
        str,
        option(
            "Send only records for which this CloudEvents SQL expression is true; by default all.",
            "--filter",
        ),
    ] = ""


@verb(
    "replay",
    "skybridge pipeline replay --from 2026-01-01 --until 2026-01-02 --to main/orders.again --dry-run",
    "skybridge pipeline replay --type 'com.example.order.*' --to main/orders.again --rate 500 --yes",
    "skybridge pipeline replay --filter \"subject LIKE 'eu-%'\" --to gateway --as 1.0",
    "skybridge pipeline replay --resume 3f9c21d07ab4",
)
def run(
    *,
    config: ConfigFile = None,
    to: Annotated[
        str,
        option(
            "Send to this target, written as BROKER/TOPIC. The value gateway means that the command posts to the events listener at --url."
        ),
    ] = "",
    records: RecordSelection,
    form: Annotated[
        str,
        option(
            "Send records in this form. recorded: byte for byte; 1.0: events of older versions are converted to version 1.0.",
            "--as",
        ),
    ] = "recorded",
    rate: Annotated[
        float, option("Send at most this many events per second; 0: no limit.", min=0)
    ] = 0.0,
    speed: Annotated[
        float,
        option(
            "Send this many times as fast as the records were stored, such as 60 for one hour of records in one minute; 0: no limit.",
            min=0,
        ),
    ] = 0.0,
    url: Annotated[
        str,
        option(
            "Post to this events listener if --to is gateway; the key is read from the environment variable SKYBRIDGE_EVENTS_KEY.",
            callback=values.url(_URL, is_base=True),
        ),
    ] = _URL,
    unmarked: Annotated[bool, option("Send records without the header skybridge-replay.")] = False,
    allow_loop: Annotated[
        bool, option("Allow a target topic that the archive copies into the lake.")
    ] = False,
    resume: Annotated[str, option("Resume the interrupted replay with this id.")] = "",
    dry_run: Annotated[bool, option("Only count the records; change nothing.")] = False,
    yes: Annotated[bool, option("Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Send records of the lake again.

    The target is a topic, or the events listener of a gateway. Records of one key keep their order;
    records of different keys may not. Each record gets the header skybridge-replay with the id of
    the replay; the event does not change. After an interruption, --resume continues, and sends the
    records of up to one second again.
    """
    settings = load_configuration(config)
    order = None
    if not resume:
        order = _order(to, form, records, marked=not unmarked)
        _check(settings, order)
    from app.spark.cleanup import cleaning_up

    session, lake = open_lake(settings, "replay", quiet=as_json)
    with cleaning_up(session.stop):
        plan, chosen, notes = _prepared(settings, session, lake, order, resume)
        if order is not None and not allow_loop:
            _demand_no_loop(settings, plan)
        if dry_run or not as_json:
            _show(plan, as_json=as_json)
        if dry_run:
            return
        if order is not None:
            _ask(plan, yes=yes)
            notes.begin(plan)
        _conclude(_sent(settings, plan, chosen, notes, rate, speed, url, as_json), as_json=as_json)
        if not as_json:
            next_step.print_next_step(lake, config)


def _order(to: str, form: str, records: RecordSelection, *, marked: bool) -> LakeReplayOrder:
    """Return the order for a replay from the options.

    Raises:
        SetupError: If the target, the form, a time or the filter is invalid.
    """
    from app.errors import SetupError
    from app.pipeline.replay.choice import RecordChoice
    from app.pipeline.replay.plan import GATEWAY, LakeReplayOrder

    broker, _, topic = to.partition("/")
    if to != GATEWAY and not (broker and topic):
        raise SetupError(
            f"{to!r} is not a target." if to else "The target is missing.",
            setting="--to",
            cure="Write --to BROKER/TOPIC, or --to gateway.",
        )
    if form not in {"recorded", "1.0"}:
        raise SetupError(
            f"{form!r} is not a form.", setting="--as", cure="Write --as recorded, or --as 1.0."
        )
    choice = RecordChoice(
        since=moment("--from", records.since),
        until=moment("--until", records.until),
        topics=tuple(records.topics or ()),
        types=tuple(records.types or ()),
        sources=tuple(records.sources or ()),
        subjects=tuple(records.subjects or ()),
        sql=records.sql,
    )
    choice.filters()  # reports invalid SQL before Spark starts
    return LakeReplayOrder(choice, to, "1.0" if form == "1.0" else "recorded", marked)


def _check(config: Config, order: LakeReplayOrder) -> None:
    """Raise SetupError if Skybridge cannot write to the broker of the target. The check is made
    before Spark starts.
    """
    from app.features.lake.replay import target_log

    if order.topic:
        target_log(config, order.broker)


def _prepared(
    config: Config, session: SparkSession, lake: Lake, order: LakeReplayOrder | None, resume: str
) -> tuple[LakeReplayPlan, ChosenRecords, ReplayNotes]:
    """Return the plan, the selected records, and the stored progress (notes) of a new or a resumed
    replay.
    """
    from app.features.lake.settings import state_folder
    from app.pipeline.replay.chosen import ChosenRecords
    from app.pipeline.replay.notes import ReplayNotes
    from app.pipeline.replay.plan import plan_replay

    folder = state_folder(config)
    if order is not None:
        plan, chosen = plan_replay(session, lake, order)
        return plan, chosen, ReplayNotes(session, folder, plan.id)
    notes = ReplayNotes(session, folder, resume)
    plan = notes.plan()
    return plan, ChosenRecords(session, lake, plan.order.choice, plan.reach), notes


def _demand_no_loop(config: Config, plan: LakeReplayPlan) -> None:
    """Raise SetupError if the archive copies the target topic into the same lake."""
    from app.features.lake.replay import archived
    from app.pipeline.replay.plan import demand_no_loop

    demand_no_loop(plan, archived(config))


def _show(plan: LakeReplayPlan, *, as_json: bool) -> None:
    if as_json:
        shown = {"id": plan.id, "to": plan.order.to, "as": plan.order.form}
        printing.json_line({**shown, "sent": plan.sent, "counts": plan.counts})
        return
    rows = [
        (each.type or f"({each.verdict})", each.records, each.bytes, "yes" if each.sent else "no")
        for each in plan.counts
    ]
    printing.print_table(("type", "records", "bytes of data", "sent"), rows)
    console = printing.err()
    form = "byte for byte" if plan.order.form == "recorded" else "in version 1.0"
    console.print(
        f"replay {plan.id}: {printing.counted(plan.sent, 'record')} to {plan.order.to}, {form}, in order per key",
        markup=False,
    )
    if not plan.order.topic:
        console.print("Events that the gateway publishes may be archived again.", markup=False)


def _ask(plan: LakeReplayPlan, *, yes: bool) -> None:
    """Ask for confirmation unless ``yes`` is set. If there is no terminal to ask, end the command."""
    if yes:
        return
    if not sys.stdin.isatty():
        printing.fail(
            f"The replay would send {printing.counted(plan.sent, 'record')}, and there is no terminal to ask for confirmation.",
            cure="Add --yes to confirm, or inspect first with --dry-run.",
            code=exits.SETUP,
        )
    typer.confirm(
        f"Send {printing.counted(plan.sent, 'record')} to {plan.order.to}?", abort=True, err=True
    )


def _sent(
    config: Config,
    plan: LakeReplayPlan,
    chosen: ChosenRecords,
    notes: ReplayNotes,
    rate: float,
    speed: float,
    url: str,
    quiet: bool,
) -> ReplayResult:
    """Send the records and return the result. After an interruption, print the command that resumes
    the replay, and end the command.
    """
    import asyncio

    from app.errors import BrokerError
    from app.interfaces.clock import SystemClock
    from app.pipeline.replay.run import ReplayPace, run

    clock = SystemClock()

    async def act() -> ReplayResult:
        pace = ReplayPace(clock, rate or None, speed or None)
        async with _outlet(config, plan, url, clock) as outlet:
            return await run(plan, chosen, outlet, notes, pace, clock, progress=moved)

    with _bar(plan, quiet=quiet) as moved:
        try:
            return asyncio.run(act())
        except (BrokerError, KeyboardInterrupt) as stopped:
            printing.fail(
                str(stopped) or "The replay was interrupted.",
                cure=f"Run skybridge pipeline replay --resume {plan.id}.",
                code=exits.FAILED,
            )


@asynccontextmanager
async def _outlet(
    config: Config, plan: LakeReplayPlan, url: str, clock: Any
) -> AsyncIterator[ReplayWriter]:
    """Yield the writer to the target of the replay, which is a topic or a gateway."""
    import os

    from app.features.lake.replay import target_log
    from app.pipeline.replay.gateway import GatewayOutlet
    from app.pipeline.replay.topic import TopicOutlet, writer

    order = plan.order
    mark = plan.id if order.marked else None
    if not order.topic:
        credential = os.environ.get("SKYBRIDGE_EVENTS_KEY", "")
        gateway = GatewayOutlet(url, order.form, mark, clock, options.authorization(credential))
        try:
            yield gateway
        finally:
            await gateway.close()
        return
    log = target_log(config, order.broker)
    await log.start()
    try:
        yield TopicOutlet(log, order.topic, writer(order.form, mark), clock)
    finally:
        await log.stop()


@contextmanager
def _bar(plan: LakeReplayPlan, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    with printing.progress_bars(quiet=quiet) as progress:
        task = progress.add_task(f"replay {plan.id}", total=plan.total)
        yield lambda done: progress.update(task, completed=done)


def _conclude(outcome: ReplayResult, *, as_json: bool) -> None:
    if as_json:
        printing.json_line(outcome)
        return
    printing.text_line(f"replay {outcome.id}: {printing.counted(outcome.sent, 'record')} sent")
    if outcome.refused:
        printing.print_table(("not sent", "records"), list(outcome.refused.items()))

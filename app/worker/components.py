"""The parts of one dispatcher, constructed in the order of their dependencies."""

from __future__ import annotations

import random
from collections.abc import Callable

from app.bindings.content_coding import without_coding
from app.bindings.table import BINDINGS
from app.delivery.lanes import Lanes
from app.filters.selection import Selection
from app.interfaces import Clock, Log, Notify, Sink, Store, notify_nothing
from app.model.message import Partition
from app.model.pull import Pull
from app.model.subscription import Subscription
from app.sinks.dead_letters import DeadLetterWriter
from app.sinks.pull_queue import PullQueueSink
from app.worker.attempts import AttemptLog
from app.worker.budget import Budget, BudgetShare
from app.worker.conclusions import Conclusions
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery
from app.worker.drain_parked import ParkedDrain
from app.worker.gate import EndpointState
from app.worker.origins import OffsetCommits
from app.worker.owned_partition import OwnedPartition
from app.worker.ownership import Ownership
from app.worker.parking import KeyParking
from app.worker.redrive import Redrive
from app.worker.replay import ReplayRunner
from app.worker.request_bounds import lanes_in_flight
from app.worker.retry import RetryNow
from app.worker.scheduler import Scheduler
from app.worker.shared import DispatcherContext, TaskScope
from app.worker.stored_rows import StoredRows
from app.worker.suspensions import Suspensions
from app.worker.timing import Timekeeper
from app.worker.watches import ExpiryAlarm, PullUpkeep

HAND_OVER = 4.0  # seconds; a log waits 5 s for a commit after it revoked a partition


class Components:
    """The parts of one dispatcher, as attributes.

    Args:
        group: the consumer group.
        shared_group: the group whose membership the subscription shares, or "".
        selection: the compiled filters.
        kind: the kind of the source's broker.
        copies: the log of the subscription's dead-letter topic.
        hand_over: seconds to wait for requests in flight when a partition is revoked.
        suspensions: those of the process, if something watches for them and reads the store.
    """

    def __init__(
        self,
        subscription: Subscription,
        log: Log,
        store: Store,
        sink: Sink,
        clock: Clock,
        *,
        group: str,
        shared_group: str = "",
        attempts: AttemptLog,
        selection: Selection,
        kind: str = "embedded",
        copies: Log | None = None,
        jitter: Callable[[], float] = random.random,
        hand_over: float = HAND_OVER,
        budget: Budget | None = None,
        suspensions: Suspensions | None = None,
        notify: Notify = notify_nothing,
    ) -> None:
        scope, timekeeper = TaskScope(), Timekeeper(clock)
        budget = budget or Budget()
        part = BudgetShare(budget, timekeeper.wake_now)
        self.shared = shared = DispatcherContext(
            *(subscription, store, clock, jitter, scope, timekeeper, attempts, part),
            suspensions or Suspensions(clock),
        )
        self.log = log
        self.group = group
        self.shared_group = shared_group
        self.hand_over = hand_over
        lasting = log.capabilities.positions
        ready = dict[Partition, OwnedPartition]()
        self.sink = sink
        self.lanes = lanes = Lanes[Delivery](lanes_in_flight(subscription))
        self.commits = commits = OffsetCommits(clock)
        self.gate = gate = EndpointState(shared, notify)
        decode = BINDINGS[kind].decode
        self.reader = reader = DeliveryReader(
            subscription,
            selection,
            lambda record: decode(record, bound=budget.content),
            content=lambda record: without_coding(record, budget.content),
            names=BINDINGS[kind].names,
            lasting=lasting,
        )
        letters = DeadLetterWriter(subscription, store.clock, attempts.counters, copies, notify)
        self.rows = rows = StoredRows(shared)
        self.parking = parking = KeyParking(shared, lanes, lasting)
        self.conclusions = conclusions = Conclusions(shared, lanes, gate, parking, letters)
        self.scheduler = scheduler = Scheduler(shared, sink, lanes, gate, parking, conclusions)
        self.drain = drain = ParkedDrain(shared, reader, scheduler, gate, parking, rows, ready)
        self.redrive = redrive = Redrive(shared, reader, scheduler, rows, ready)
        self.replays = replays = ReplayRunner(shared, log, reader, scheduler, parking, ready)
        self.retry_now = RetryNow(shared, lanes, gate, parking, redrive, ready)
        holding = (commits, scheduler, parking, rows, drain, redrive, replays)
        self.ownership = Ownership(shared, *holding, ready, hand_over, log.capabilities.generations)
        alarm = ExpiryAlarm(shared, log, notify, group, gate)
        self.watches: list[ExpiryAlarm | PullUpkeep] = [alarm]
        if isinstance(subscription.sink, Pull) and isinstance(sink, PullQueueSink):
            most = subscription.sink.pull.max_deliveries
            self.watches.append(PullUpkeep(shared, most, letters, sink))

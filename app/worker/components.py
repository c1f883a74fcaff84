"""The parts of a dispatcher, made in the order in which they need each other."""

from __future__ import annotations

from app.bindings.table import BINDINGS
from app.delivery.lanes import Lanes
from app.interfaces import Log, Notify, Sink
from app.model.message import Partition
from app.model.pull import Pull
from app.sinks.dead_letters import DeadLettering
from app.sinks.pull_queue import PullQueueSink
from app.worker.conclusions import Conclusions
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery
from app.worker.delivery_policy import lanes_in_flight
from app.worker.drain_parked import Drain
from app.worker.gate import Gate
from app.worker.offset_commits import OffsetCommits
from app.worker.origins import OwnedPartition
from app.worker.ownership import Ownership
from app.worker.parking import Parking
from app.worker.redrive import Redrive
from app.worker.replay import Replays
from app.worker.scheduler import Scheduler
from app.worker.shared import Shared
from app.worker.stored_rows import StoredRows
from app.worker.watches import ExpiryAlarm, PullUpkeep


class Components:
    """Of one subscription. Arguments as those of its ``Dispatcher``."""

    def __init__(
        self,
        shared: Shared,
        log: Log,
        sink: Sink,
        copies: Log | None,
        notify: Notify,
        *,
        group: str,
        kind: str,
        hand_over: float,
    ) -> None:
        subscription, clock, attempts = shared.subscription, shared.clock, shared.attempts
        lasting = log.capabilities.positions
        ready = dict[Partition, OwnedPartition]()
        self.sink = sink
        self.lanes = lanes = Lanes[Delivery](lanes_in_flight(subscription))
        self.commits = commits = OffsetCommits(clock)
        self.gate = gate = Gate(shared, notify)
        self.reader = reader = DeliveryReader(
            subscription, BINDINGS[kind].decode, lasting=lasting, failed=attempts.filter_failed
        )
        letters = DeadLettering(subscription, clock, attempts.counters, copies, notify)
        self.rows = rows = StoredRows(shared)
        self.parking = parking = Parking(shared, lanes, lasting)
        self.conclusions = conclusions = Conclusions(shared, lanes, gate, parking, letters)
        self.scheduler = scheduler = Scheduler(shared, sink, lanes, gate, parking, conclusions)
        self.drain = drain = Drain(shared, reader, scheduler, gate, parking, rows, ready)
        self.redrive = redrive = Redrive(shared, reader, scheduler, rows, ready)
        self.replays = replays = Replays(shared, log, reader, scheduler, parking, ready)
        holding = (commits, scheduler, parking, rows, drain, redrive, replays)
        self.ownership = Ownership(shared, *holding, ready, hand_over, log.capabilities.generations)
        alarm = ExpiryAlarm(shared, log, notify, group, gate)
        self.watches: list[ExpiryAlarm | PullUpkeep] = [alarm]
        if isinstance(subscription.sink, Pull) and isinstance(sink, PullQueueSink):
            most = subscription.sink.pull.max_deliveries
            self.watches.append(PullUpkeep(shared, most, letters, sink))

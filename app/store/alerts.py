"""The stored reports of processes, and the process that sends alerts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select, update

from app.interfaces.alerts import AlertBoard, AlertReport
from app.store.rows import insert
from app.store.tables import alert_reports, alert_sender
from app.store.transactions import StorePart, transaction

_r, _s = alert_reports.c, alert_sender.c
_ONLY = 1  # the id of the only row


class Alerts(StorePart):
    """The reports and the sender of alerts. Implements ``interfaces.AlertStore``."""

    @transaction
    def report(self, connection: Connection, process: str, document: bytes) -> AlertBoard:
        new = insert(connection, alert_reports).values(process=process, beat=1, document=document)
        grown = {"beat": _r.beat + 1, "document": document}
        connection.execute(new.on_conflict_do_update(index_elements=["process"], set_=grown))
        mine = update(alert_sender).where(_s.process == process)
        connection.execute(mine.values(beat=_s.beat + 1))
        rows = connection.execute(select(alert_reports))
        reports = tuple(AlertReport(row.process, row.beat, row.document) for row in rows)
        sender = connection.execute(select(alert_sender)).one_or_none()
        if sender is None:
            return AlertBoard(reports=reports)
        return AlertBoard(sender.process, sender.beat, sender.state, reports)

    @transaction
    def take(self, connection: Connection, process: str, board: AlertBoard) -> bool:
        first = {"id": _ONLY, "process": "", "beat": 0, "state": b""}
        connection.execute(insert(connection, alert_sender).values(first).on_conflict_do_nothing())
        here = (_s.process == board.sender) & (_s.beat == board.beat)
        taken = update(alert_sender).where(here).values(process=process, beat=board.beat + 1)
        return connection.execute(taken.returning(_s.id)).first() is not None

    @transaction
    def save(self, connection: Connection, process: str, state: bytes) -> bool:
        saved = update(alert_sender).where(_s.process == process).values(state=state)
        return connection.execute(saved.returning(_s.id)).first() is not None

    @transaction
    def forget(self, connection: Connection, reports: Sequence[AlertReport]) -> None:
        for each in reports:
            same = (_r.process == each.process) & (_r.beat == each.beat)
            connection.execute(delete(alert_reports).where(same))

    @transaction
    def leave(self, connection: Connection, process: str) -> None:
        connection.execute(delete(alert_reports).where(_r.process == process))
        connection.execute(update(alert_sender).where(_s.process == process).values(process=""))

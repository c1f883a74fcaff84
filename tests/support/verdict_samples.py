"""Verdicts for tests of alerts."""

from __future__ import annotations

from app.model.operator_verdict import OperatorVerdict

FAILS = OperatorVerdict(
    name="endpoint-fails",
    severity="error",
    subject="subscription billing",
    detail="the target fails, the last 12 attempts failed: status 500",
    cure="repair the target, then try again at once",
    command="skybridge retry billing",
)
BROKER_AWAY = OperatorVerdict(
    name="broker-away",
    severity="error",
    subject="broker main",
    detail="refused",
    cure="start the broker",
    command="skybridge check skybridge.yaml --connect",
)
STORE_AWAY = OperatorVerdict(
    name="store-away",
    severity="error",
    subject="store",
    detail="no answer in 5 s",
    cure="start the database",
    command="skybridge check",
)

"""Logs on Pulsar with the time-outs of a test that claims nothing about them."""

from __future__ import annotations

from functools import partial

from app.brokers.pulsar import open_log
from contract_tools import ANSWERED_WITHIN, CALM

open_calm_log = partial(
    open_log,
    operation_timeout=ANSWERED_WITHIN,
    connect_timeout=ANSWERED_WITHIN,
    send_timeout=ANSWERED_WITHIN,
    bounds=CALM,
)

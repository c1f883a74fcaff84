"""Set up the traces of this process from its settings, and close them at the end."""

from __future__ import annotations

import asyncio

from app.config.derived.kinds import kinds_of
from app.config.model.config import Config
from app.errors import SetupError
from app.interfaces import Sink
from app.model.route import Exchange, Target
from app.model.spool import group_name
from app.model.subscription import Subscription
from app.sinks.traced import TracedSink
from app.telemetry.traces import (
    TraceSettings,
    close_traces,
    messaging_system,
    set_up_traces,
    traces,
)


def begin_traces(config: Config) -> None:
    """Set up traces if the configuration has them. Raise SetupError if the extra ``otel`` is not installed."""
    asked = config.telemetry.traces
    if asked is None:
        set_up_traces(None)
        return
    _demand_extra()
    set_up_traces(
        TraceSettings(
            endpoint=asked.endpoint,
            sample=asked.sample,
            service=asked.service,
            installation=config.installation,
            headers={name: value.get_secret_value() for name, value in asked.headers.items()},
            timeout=asked.timeout,
        )
    )


def _demand_extra() -> None:
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: PLC0415
        import opentelemetry.sdk.trace  # noqa: F401, PLC0415
    except ImportError:
        raise SetupError(
            "OpenTelemetry, which traces need, is not installed",
            setting="telemetry.traces",
            cure="install the extra otel (make install installs it, the images have it), "
            "or leave telemetry.traces out",
        ) from None


async def end_traces() -> None:
    """Send waiting spans and close the traces. This runs in a thread, because a collector may be slow."""
    await asyncio.to_thread(close_traces)


def with_traces(sink: Sink, subscription: Subscription, config: Config) -> Sink:
    """Return a sink that records a span for each attempt. If traces are off, return ``sink`` itself."""
    found = traces()
    if found is None:
        return sink
    system = system_of(config, subscription.source.broker)
    group = group_name(config.installation, subscription.id)
    target = subscription.sink
    to = system_of(config, target.broker) if isinstance(target, Target | Exchange) else ""
    return TracedSink(sink, subscription, found, system, group, to)


def system_of(config: Config, broker: str) -> str:
    """Return the attribute ``messaging.system`` of a broker of the configuration."""
    return messaging_system(kinds_of(config).get(broker, "embedded"))

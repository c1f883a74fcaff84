"""Run the role ``operator`` until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import uvloop

from app.config.model.config import Config
from app.config.model.operator import Operator
from app.errors import SetupError
from app.interfaces.clock import SYSTEM_CLOCK, ServerClock
from app.kubernetes.admin import AdminApi
from app.kubernetes.client import KubernetesClient, KubernetesUnavailable
from app.kubernetes.probes import OperatorProbes
from app.kubernetes.role import OperatorRole
from app.kubernetes.settings import read_settings
from app.runtime.signals import Signals
from app.telemetry import set_up_logging

_log = logging.getLogger(__name__)


def serve(file: Path | None) -> None:
    """Run until SIGINT or SIGTERM. Raise SetupError if the configuration or the access to Kubernetes is missing."""
    config, settings = _settings(file)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, settings))


def _settings(file: Path | None) -> tuple[Config, Operator]:
    config, settings = read_settings(file, os.environ)
    set_up_logging(config.log.level, as_json=config.log.format == "json")
    for name in ("httpx", "kubernetes_asyncio"):  # at lower levels they log requests and bodies
        logging.getLogger(name).setLevel(logging.WARNING)
    return config, settings


async def _opened(clock: ServerClock) -> KubernetesClient:
    try:
        return await KubernetesClient.open(clock)
    except KubernetesUnavailable as error:
        raise SetupError(
            str(error),
            setting="KUBECONFIG",
            cure="run the operator in a pod with a service account, or set KUBECONFIG",
        ) from None


async def _serve(config: Config, settings: Operator) -> None:
    clock = ServerClock(SYSTEM_CLOCK, "the API server")
    client, admin = await _opened(clock), AdminApi(settings.admin)
    most = config.limits.subscription_bytes
    role = OperatorRole(settings, client, admin, clock, most)
    probes = OperatorProbes(config, lambda: (role.leads, role.causes, role.counts))
    with Signals() as signals:
        await probes.start()
        _log.info("the operator answers probes at %s", probes.url)
        work = asyncio.create_task(role.run())
        asked = asyncio.create_task(signals.asked.wait())
        try:
            await asyncio.wait((work, asked), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (work, asked):
                each.cancel()
            await asyncio.gather(work, asked, return_exceptions=True)
            await probes.stop()
            await admin.close()
            await client.close()

"""The intakes of a configuration, with their secrets as they are while the service runs."""

from __future__ import annotations

from app.config.model.config import Config
from app.errors import SetupError
from app.gateway.intakes import Intakes, OpenIntake
from app.intakes.compiled import secrets_of
from app.interfaces import Clock
from app.model.intake import Intake
from app.sinks.secrets import LiveSecret
from app.telemetry import Counters


def open_intakes(config: Config, clock: Clock, counters: Counters) -> Intakes:
    """Raises SetupError for what cannot be compiled."""
    opened = [_opened(n, intake, clock) for n, intake in enumerate(config.intakes)]
    return Intakes(opened, counters, config.server.events.forward_headers)


def _opened(number: int, intake: Intake, clock: Clock) -> OpenIntake:
    secrets = [LiveSecret(secret, clock.monotonic) for secret in secrets_of(intake)]
    try:
        return OpenIntake(intake, secrets, clock)
    except SetupError as error:
        setting = f"intakes[{number}].{error.setting}"
        raise SetupError(error.args[0], setting=setting, cure=error.cure) from None

"""The intakes of a configuration, with secrets that are read again while the service runs."""

from __future__ import annotations

from collections.abc import Mapping

from app.access.caller import EventMeter
from app.config.model.config import Config
from app.errors import SetupError
from app.features.component import Component, ConfigChange
from app.gateway.intakes import ActiveIntake, Intakes, IntakeState
from app.intakes.compiled import secrets_of
from app.interfaces import Clock
from app.model.intake import Intake
from app.sinks.secrets import LiveSecret
from app.telemetry import Counters


class IntakesComponent(Component[Intakes]):
    """The component with the intakes of the current configuration. Their counts survive a reload."""

    name = "intakes"

    def __init__(self, config: Config, clock: Clock, counters: Counters) -> None:
        self._clock = clock
        self._counters = counters
        self.now = self._opened(config, {})

    def tallies(self) -> Mapping[str, EventMeter]:
        """Return the counts of each intake, by name."""
        return self.now.tallies()

    async def prepare(self, change: ConfigChange) -> Intakes:
        return self._opened(change.config, self.now.memories())

    def apply(self, prepared: Intakes) -> None:
        self.now = prepared
        prepared.take_effect()

    def _opened(self, config: Config, memories: Mapping[str, IntakeState]) -> Intakes:
        """Compile the intakes of a configuration. Raise SetupError if an intake cannot be compiled."""
        opened = [
            _opened(number, intake, self._clock, memories.get(intake.name))
            for number, intake in enumerate(config.intakes)
        ]
        return Intakes(opened, self._counters, config.server.events.forward_headers)


def _opened(number: int, intake: Intake, clock: Clock, memory: IntakeState | None) -> ActiveIntake:
    """Compile one intake. ``memory`` has the state that survives a reload. Raise SetupError, with the full
    name of the setting, if that fails."""
    secrets = [LiveSecret(secret, clock.monotonic) for secret in secrets_of(intake)]
    try:
        return ActiveIntake(intake, secrets, clock, memory)
    except SetupError as error:
        setting = f"intakes[{number}].{error.setting}"
        raise SetupError(error.args[0], setting=setting, cure=error.cure) from None

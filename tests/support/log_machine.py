"""The common part of state machines that test an embedded log. A machine runs several lives of a
log one after another, each in its own folder."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis.stateful import RuleBasedStateMachine

from app.brokers.embedded import ConsumerSettings, EmbeddedDriver, EngineSettings
from app.brokers.portable import PortableLog
from folder_in_memory import folder_in_memory
from patience import PATIENT


class LogMachine(RuleBasedStateMachine):
    """A state machine that tests a log. Its step ``die`` is a crash: the next life of the log
    starts from the files as they are at that moment."""

    driver: EmbeddedDriver
    log: PortableLog

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.home = Path(tempfile.mkdtemp(prefix="skybridge-model-", dir=folder_in_memory()))
        self.life = 0
        self.count = 0

    @property
    def folder(self) -> Path:
        return self.home / str(self.life)

    async def begin(self, settings: EngineSettings, consumers: ConsumerSettings) -> None:
        self.driver = EmbeddedDriver(settings, consumers)
        self.log = PortableLog(self.driver, PATIENT)
        await self.log.start()

    def die(self) -> None:
        """Start the next life from a copy of the files, taken before the log stops."""
        old = self.folder
        self.life += 1
        self.folder.mkdir()
        self.copy(old)
        self.runner.run(self.log.stop())
        shutil.rmtree(old)

    def copy(self, old: Path) -> None:
        for file in old.iterdir():
            if not file.name.endswith("-shm"):
                shutil.copy(file, self.folder / file.name)

    def teardown(self) -> None:
        self.runner.run(self.log.stop())
        self.runner.close()
        shutil.rmtree(self.home)

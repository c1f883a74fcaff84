"""Reload the configuration: read the file again, compare it with the current configuration, and apply its
changes.

One reload runs at a time. A file that is invalid, cannot be applied or needs a restart is refused as a whole.
The service then continues, and its status, log and a metric report the refusal.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.api.access.audit_trail import AuditRecorder
from app.api.status.configured import Cause, Outcome, Refusal, ReloadResult
from app.config.check.source import ConfigSource
from app.config.derived.credentials import marks, texts
from app.config.diff.difference import Difference, difference
from app.config.diff.shown import digest_of, shown_of, view_of
from app.config.load.finding import BadConfiguration, Finding
from app.config.load.loader import Loaded
from app.errors import Fault, SetupError, SkybridgeError
from app.features.component import ConfigChange
from app.interfaces import Clock
from app.model.judgement import Judgement
from app.model.scopes import BY_FILE, BY_SIGNAL
from app.runtime.reload.judges import Judges
from app.telemetry import Counters

UNSEEN = ""
_AUDITED: Mapping[str, str] = {"signal": BY_SIGNAL, "file": BY_FILE}

_log = logging.getLogger("skybridge.reload")


class Reloader:
    """The reloads of a service, as ``api.status.configured.CurrentConfiguration``.

    Attributes:
        seen: The digest of the bytes of the file that were last judged, with any result.
        files: The marks of the files that were judged with them.

    ``warnings`` are those of the configuration at the start.
    """

    def __init__(
        self,
        source: ConfigSource | None,
        loaded: Loaded,
        take_up: Callable[[ConfigChange], Awaitable[None]],
        clock: Clock,
        counters: Counters,
        trail: AuditRecorder,
        warnings: Sequence[str] = (),
    ) -> None:
        self._trail = trail
        self.source = loaded.source
        self._source = source
        self._take_up = take_up
        self._clock = clock
        self._counters = counters
        self._lock = asyncio.Lock()
        self._judges = Judges()
        self._loaded = loaded
        self.digest = digest_of(shown_of(loaded))
        self.seen = digest_of_bytes(loaded.raw)
        self.files: Hashable = loaded.files
        self.last = self.taken = self._result("start", "ok", warnings=warnings)
        self.taken_at = clock.monotonic()

    @property
    def shown(self) -> Mapping[str, Any]:
        """Return every current setting, with secrets hidden. It is computed at each call and not stored,
        because thousands of subscriptions make it large."""
        shown: Mapping[str, Any] = shown_of(self._loaded)
        return shown

    @property
    def every(self) -> float:
        """Return the seconds between checks of the file, or 0 if it is not watched."""
        if self._source is None or self._source.path is None:
            return 0.0
        return self._loaded.config.reload.watch

    def named_files(self) -> Hashable:
        """Return a value that changes when a file that the configuration names changes, such as a credential
        or a schema. It reads the disk."""
        return marks(self._loaded.config)

    def read(self) -> bytes | None:
        """Return the bytes of the file, or None without one. Raise BadConfiguration if it cannot be read."""
        return None if self._source is None else self._source.read()

    async def reload(self, cause: Cause) -> ReloadResult:
        """Read the file again and apply its changes. Return the result, also if the file is refused."""
        async with self._lock:
            try:
                result = await self._reload(cause)
            except SetupError as error:
                result = self._refused(cause, "invalid-configuration", [_fault(error)])
            except SkybridgeError as error:
                self.seen = UNSEEN  # so that the next check of the file tries again
                result = self._refused(cause, "not-now", [Fault("not-now", str(error))])
            except Exception as error:  # noqa: BLE001 - logged, and the service continues
                _log.exception("a reload failed unexpectedly")
                result = self._refused(cause, "not-now", [Fault("not-now", repr(error))])
            self._record(result)
        if cause in _AUDITED:  # a reload by the API is audited with its request
            await self._trail.record_reload(_AUDITED[cause], result.status, result.summary)
        return result

    async def judge(self, proposed: bytes) -> Judgement:
        """Check a proposed configuration and plan its changes, without applying them."""
        return await self._judges.judge(proposed, self.shown)

    async def _reload(self, cause: Cause) -> ReloadResult:
        """Read, validate, compare and apply the file. Return the result."""
        if self._source is None:
            raise SetupError(
                "the service was started without a file, so it cannot reload", setting=""
            )
        try:
            self.files = await asyncio.to_thread(self.named_files)  # before any of them is read
            raw = await asyncio.to_thread(self._source.read)
            self.seen = digest_of_bytes(raw)
            loaded, warnings = await asyncio.to_thread(self._source.judge, raw)
        except BadConfiguration as bad:
            faults = [_finding_fault(each) for each in bad.findings]
            return self._refused(cause, "invalid-configuration", faults)
        digest, found = await asyncio.to_thread(_compare, self._loaded, loaded)
        if found.restarts:
            faults = [_needs_restart(each.setting, loaded) for each in found.restarts]
            return self._refused(cause, "needs-restart", faults)
        reads_files = any(route.data_schema for route in loaded.config.routes)
        rotated = texts(loaded.config) != texts(self._loaded.config)
        if found.changes or rotated or raw != self._loaded.raw or reads_files:
            rereads = loaded.files != self._loaded.files
            await self._take_up(ConfigChange(loaded, found, rereads=rereads))
        self._loaded, self.digest = loaded, digest
        self.files = loaded.files
        outcome: Outcome = "ok" if found.changes or rotated else "unchanged"
        return self._result(cause, outcome, found=found, warnings=[str(each) for each in warnings])

    def _result(
        self,
        cause: Cause,
        outcome: Outcome,
        *,
        found: Difference | None = None,
        warnings: Sequence[str] = (),
    ) -> ReloadResult:
        """Return the result of a reload that was not refused."""
        return ReloadResult(
            at=self._clock.now(),
            cause=cause,
            outcome=outcome,
            digest=self.digest,
            changes=[str(each) for each in found.changes] if found else (),
            restarted=found.restarted if found else (),
            warnings=warnings,
        )

    def _refused(self, cause: Cause, refusal: Refusal, faults: Sequence[Fault]) -> ReloadResult:
        """Return the result of a refused reload."""
        return replace(self._result(cause, "refused"), refusal=refusal, faults=faults)

    def _record(self, result: ReloadResult) -> None:
        """Store the result, count it, and log it."""
        self.last = result
        self._counters.add("config_reloads", result.outcome)
        if result.outcome == "refused":
            causes = "; ".join(each.detail for each in result.faults)
            _log.error(
                "%s is refused, the old configuration keeps running: %s", self.source, causes
            )
            return
        self.taken, self.taken_at = result, self._clock.monotonic()
        for warning in result.warnings:
            _log.warning("%s: %s", self.source, warning)
        for change in result.changes:
            _log.info("changed: %s", change)
        _log.info("%s is applied (%s), digest %s", self.source, result.outcome, result.digest)


def _compare(before: Loaded, loaded: Loaded) -> tuple[str, Difference]:
    """Return the digest of a configuration, and its difference to the one before."""
    view = view_of(loaded)
    return digest_of(view.shown), difference(view_of(before), view)


def digest_of_bytes(raw: bytes | None) -> str:
    """Return the SHA-256 digest of the bytes of a file."""
    return hashlib.sha256(raw or b"").hexdigest()


def _finding_fault(finding: Finding) -> Fault:
    return Fault("invalid-setting", str(finding), at=finding.setting)


def _needs_restart(setting: str, loaded: Loaded) -> Fault:
    line = loaded.place(*setting.split(".")).line
    where = f"line {line}: " if line else ""
    return Fault("needs-restart", f"{where}needs a restart: {setting}", at=setting)


def _fault(error: SetupError) -> Fault:
    setting = f"{error.setting}: " if error.setting else ""
    cure = f" Cure: {error.cure}" if error.cure else ""
    return Fault("invalid-setting", f"{setting}{error.args[0]}{cure}", at=error.setting)

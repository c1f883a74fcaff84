"""A copy of the objects of one list, which a watch keeps up to date."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from app.errors import SkybridgeError
from app.kubernetes.client import FORBIDDEN, GONE, KubernetesClient, KubernetesRefused

_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0  # seconds between two requests that fail or end at once
_LASTED = 5.0  # seconds; a watch that lasts as long is no failure, and the next one begins at once

_log = logging.getLogger(__name__)


def _version(item: Any) -> object:
    return item["metadata"].get("resourceVersion")


class Watched:
    """The objects of one list by name. While the API server is away, the copy stays as it was.

    Attributes:
        objects: The objects by name.
        complete: True after the first complete list, until the right to read it is withdrawn. A namespace that was
            created again may have other objects.
        is_forbidden: True while the right to read the list is missing.
        trouble: Why the copy may be old, or "".
    """

    def __init__(
        self,
        client: KubernetesClient,
        path: str,
        changed: Callable[[str], None],
        query: Mapping[str, str] | None = None,
        shape: Callable[[Any], object] = _version,
    ) -> None:
        """Take the list and a function that is called with the name of each object that changed. An object has
        changed if its ``shape`` has."""
        self.objects: dict[str, Any] = {}
        self.complete = self.is_forbidden = False
        self.trouble = ""
        self._client = client
        self._path = path
        self._changed = changed
        self._query = query
        self._shape = shape

    async def run(self) -> None:
        """Keep the copy until the task is cancelled. Wait before a request if the last ones failed or ended at once:
        an API server under load must not be asked without a pause."""
        wait, version = _FIRST_WAIT, ""
        while True:
            begun, is_failed = asyncio.get_running_loop().time(), False
            try:
                version = await self._follow(version or await self._list())
            except SkybridgeError as error:
                version, is_failed = "", True
                if isinstance(error, KubernetesRefused) and error.status == FORBIDDEN:
                    self.complete, self.is_forbidden = False, True
                self._report(str(error))
            has_lasted = asyncio.get_running_loop().time() - begun >= _LASTED
            wait = _FIRST_WAIT if has_lasted else wait
            if is_failed or not has_lasted:
                await asyncio.sleep(wait)
                wait = min(_LONGEST_WAIT, wait * 2)

    async def _list(self) -> str:
        """Read all objects, and return the resource version of the list."""
        found, version = await self._client.list(self._path, self._query)
        now = {each["metadata"]["name"]: each for each in found}
        before, self.objects = self.objects, now
        for name in {*before, *now}:
            if self._differs(before.get(name), now.get(name)):
                self._changed(name)
        self.trouble = ""
        self.complete, self.is_forbidden = True, False
        return version

    async def _follow(self, version: str) -> str:
        """Apply the changes after a version until the watch ends, and return the newest version. Return "" if the
        list has to be read again."""
        try:
            async for kind, item in self._client.watch(self._path, version, self._query):
                version = item["metadata"]["resourceVersion"]
                if kind != "BOOKMARK":
                    self._apply(kind, item)
        except KubernetesRefused as refused:
            if refused.status != GONE:
                raise
            return ""
        return version

    def _apply(self, kind: str, item: Any) -> None:
        name = item["metadata"]["name"]
        before, now = self.objects.pop(name, None), None if kind == "DELETED" else item
        if now is not None:
            self.objects[name] = now
        if self._differs(before, now):
            self._changed(name)

    def _differs(self, before: Any, now: Any) -> bool:
        if before is None or now is None:
            return before is not now
        return self._shape(before) != self._shape(now)

    def _report(self, trouble: str) -> None:
        if trouble != self.trouble:
            _log.warning("%s cannot be read: %s. Known objects stay in force.", self._path, trouble)
        self.trouble = trouble

"""An API server of Kubernetes in memory: objects, lists, watches, status, finalizers and conflicts, without any check.

``tests/kubernetes/test_operator_role.py`` runs on it and on a real API server, so that it stays true where the
operator uses it. It knows every kind by its path, checks no schema, and everybody may do everything.
"""

from __future__ import annotations

import copy
import itertools
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

Object = dict[str, Any]
_STATUS = "status"
_NOW = "2026-01-01T00:00:00Z"


class Refused(Exception):
    """A request that the API server refuses, with its status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Change(NamedTuple):
    """One change of an object: its number, what happened, and the object before and after it."""

    version: int
    kind: str
    collection: str
    before: Object | None
    after: Object


class Objects:
    """All objects by the path of their collection and their name, with the history of their changes."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._objects: dict[tuple[str, str], Object] = {}
        self._history: list[Change] = []
        self._versions = itertools.count(1)
        self._forgotten = 0

    @property
    def version(self) -> int:
        return self._history[-1].version if self._history else self._forgotten

    def forget(self) -> None:
        """Forget the history, as a real API server does after some minutes: older watches get 410."""
        with self.changed:
            self._forgotten = self.version
            self._history.clear()

    def get(self, collection: str, name: str) -> Object:
        found = self._objects.get((collection, name))
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"{collection}/{name} not found")
        return copy.deepcopy(found)

    def list(self, collection: str, selector: str) -> Object:
        items = [
            copy.deepcopy(each)
            for (place, _), each in self._objects.items()
            if place == collection and selects(selector, each)
        ]
        return {"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items}

    def create(self, collection: str, item: Object) -> Object:
        name = item["metadata"]["name"]
        if (collection, name) in self._objects:
            raise Refused(HTTPStatus.CONFLICT, f"{name} already exists")
        own = {"uid": str(uuid.uuid4()), "generation": 1, "creationTimestamp": _NOW}
        made = {**item, "metadata": {**item["metadata"], **own}}
        made.pop(_STATUS, None)
        return self._store(collection, "ADDED", None, made)

    def change(
        self, collection: str, name: str, part: str, change: Callable[[Object], Object]
    ) -> Object:
        """Store what ``change`` makes of an object, or of its status alone if ``part`` is its path."""
        before = self.get(collection, name)
        wanted = change(copy.deepcopy(before))
        asked = wanted["metadata"].get("resourceVersion", "")
        if asked and asked != before["metadata"]["resourceVersion"]:
            raise Refused(HTTPStatus.CONFLICT, "the object has been modified")
        after = _merged(before, wanted, part)
        if _same(before, after):
            return before
        metadata = after["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            return self._remove(collection, before, after)
        return self._store(collection, "MODIFIED", before, after)

    def delete(self, collection: str, name: str) -> Object:
        before = self.get(collection, name)
        if not before["metadata"].get("finalizers"):
            return self._remove(collection, before, before)
        if before["metadata"].get("deletionTimestamp"):
            return before
        after = copy.deepcopy(before)
        after["metadata"]["deletionTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        after["metadata"]["generation"] += 1
        return self._store(collection, "MODIFIED", before, after)

    def after(self, version: int, collection: str) -> list[Change]:
        """Return the changes of a collection after a version. Raises Refused with 410 if they are forgotten."""
        if version < self._forgotten:
            raise Refused(HTTPStatus.GONE, "too old resource version")
        return [
            each
            for each in self._history
            if each.version > version and each.collection == collection
        ]

    def _store(self, collection: str, kind: str, before: Object | None, after: Object) -> Object:
        version = next(self._versions)
        after["metadata"]["resourceVersion"] = str(version)
        self._objects[collection, after["metadata"]["name"]] = after
        self._history.append(Change(version, kind, collection, before, copy.deepcopy(after)))
        self.changed.notify_all()
        return copy.deepcopy(after)

    def _remove(self, collection: str, before: Object, after: Object) -> Object:
        self._store(collection, "DELETED", before, after)
        return self._objects.pop((collection, after["metadata"]["name"]))


def selects(selector: str, item: Object) -> bool:
    """Return True if an object has all labels of a selector ``NAME=VALUE,...``."""
    labels = item["metadata"].get("labels") or {}
    wanted = (each.partition("=") for each in selector.split(",") if each)
    return all(labels.get(name) == value for name, _, value in wanted)


def shown(change: Change, selector: str) -> tuple[str, Object] | None:
    """Return what a watch with a selector shows of a change: an object may also enter or leave the selection."""
    before = change.before is not None and selects(selector, change.before)
    after = change.kind != "DELETED" and selects(selector, change.after)
    kinds = {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}
    kind = kinds.get((before, after))
    return None if kind is None else (kind, change.after)


def _merged(before: Object, wanted: Object, part: str) -> Object:
    """Return the object after a write of all but its status, or of its status alone."""
    if part == _STATUS:
        return {**before, _STATUS: wanted.get(_STATUS, {})}
    kept = {name: before["metadata"][name] for name in ("uid", "creationTimestamp", "generation")}
    after = {**wanted, "metadata": {**wanted["metadata"], **kept}}
    after.pop(_STATUS, None)
    if _STATUS in before:
        after[_STATUS] = before[_STATUS]
    if after.get("spec") != before.get("spec"):
        after["metadata"]["generation"] += 1
    return after


def _same(before: Object, after: Object) -> bool:
    """Return True if a write changes nothing: then there is no new version."""

    def plain(item: Object) -> Object:
        metadata = {k: v for k, v in item["metadata"].items() if k != "resourceVersion"}
        return {**item, "metadata": metadata}

    return plain(before) == plain(after)


def merge_patch(value: Any, change: Any) -> Any:
    """Return a value changed by a JSON merge patch (RFC 7396)."""
    if not isinstance(change, Mapping):
        return change
    result = dict(value) if isinstance(value, Mapping) else {}
    for name, each in change.items():
        if each is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), each)
    return result


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Write no log of requests."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.server.ending:  # a connection that outlives ``kill``
            self.close_connection = True
            return
        try:
            if query.get("watch") in {"true", "1"}:
                self._watch(parts.path, query)
                return
            with self.server.objects.changed:
                found = self._done(parts.path, query, json.loads(body or b"null"))
            self._send(HTTPStatus.OK, found)
        except Refused as refused:
            status = {"kind": "Status", "code": refused.status, "message": str(refused)}
            self._send(refused.status, status)
        except OSError:
            self.close_connection = True

    def _done(self, path: str, query: Mapping[str, str], body: Any) -> Object:
        objects = self.server.objects
        collection, name, part = _split(path)
        if self.command == "POST":
            return objects.create(collection, body)
        if not name:
            return objects.list(collection, query.get("labelSelector", ""))
        if self.command == "GET":
            return objects.get(collection, name)
        if self.command == "DELETE":
            return objects.delete(collection, name)
        if self.command == "PUT":
            return objects.change(collection, name, part, lambda _: body)
        return objects.change(
            collection, name, part, lambda old: merge_patch(_unversioned(old), body)
        )

    def _send(self, status: HTTPStatus, found: Object) -> None:
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _watch(self, path: str, query: Mapping[str, str]) -> None:
        """Stream changes until the time of the watch is over or the server ends."""
        begun = self._changes(path, query)
        first = next(begun)
        self.send_response(HTTPStatus.OK)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in itertools.chain([first], begun):
            if event:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _changes(self, path: str, query: Mapping[str, str]) -> Iterator[Object | None]:
        """Yield the events of a watch. None: there is none for now."""
        version, objects = int(query.get("resourceVersion") or 0), self.server.objects
        ends = time.monotonic() + float(query.get("timeoutSeconds", 60))
        while time.monotonic() < ends and not self.server.ending:
            with objects.changed:
                found = objects.after(version, path)
                if not found:
                    objects.changed.wait(0.05)
            for each in found:
                version = each.version
                if event := shown(each, query.get("labelSelector", "")):
                    yield {"type": event[0], "object": event[1]}
            yield None


def _unversioned(item: Object) -> Object:
    """Return an object whose version a merge patch need not repeat."""
    return {
        **item,
        "metadata": {k: v for k, v in item["metadata"].items() if k != "resourceVersion"},
    }


def _split(path: str) -> tuple[str, str, str]:
    """Return the collection, the name and the part of a path, as ``/api/v1/namespaces/N/secrets/NAME``."""
    words = path.strip("/").split("/")
    at = words.index("namespaces") + 3
    collection = "/" + "/".join(words[:at])
    name, part, *_ = [*words[at:], "", ""]
    return collection, name, part


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, objects: Objects) -> None:
        self.objects, self.ending = objects, False
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, *_: Any) -> None:
        """Ignore a client that has gone."""


class FakeApiServer:
    """The server on a free port of loopback. Its objects and its port stay through ``kill`` and ``start``."""

    def __init__(self) -> None:
        self.objects = Objects()
        self._port = 0
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._server = _Server(self._port, self.objects)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def kill(self) -> None:
        """Stop to answer: watches end, and new connections are refused."""
        if self._server is not None:
            self._server.ending = True
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def client(self) -> Mapping[str, Any]:
        """Return a kubeconfig as a mapping."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }

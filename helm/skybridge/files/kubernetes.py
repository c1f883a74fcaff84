# ruff: noqa: INP001, T201 - a program of its own, in a pod that has nothing else
"""Change objects of Kubernetes for the hooks of the chart, with the service account of the pod.

python kubernetes.py define FILE: creates or changes the definition in FILE. A cluster may have several
releases, so an older one leaves the definition of a newer one as it is.

python kubernetes.py end --deployment NAME --lease NAME --component LABELS [NAMESPACE...]: ends the operator, waits
until none of its pods is left, and releases its Subscriptions: those that name its Lease in their status, and those of
these namespaces that name no operator yet. They have no finalizer then, and another operator may have them.
"""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GROUP = "skybridge.example.org"
FINALIZER = f"{GROUP}/drain"
VERSION = f"{GROUP}/version"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
WITHIN = 150.0  # seconds for the last pod of the operator to end
MERGED = "application/merge-patch+json"
APPLIED = "application/apply-patch+yaml"
STEPS = "application/json-patch+json"
MISSING, CONFLICT, OTHERWISE = 404, 409, 422
TRIES = 5  # of a change that another writer has prevented
PAGE = 50  # objects at a time; each may have a megabyte
DEEPEST = 30_000  # calls; the API server accepts objects of 10,000 levels
Object = dict[str, Any]


class Api:
    """The API server of the cluster.

    Args:
        url: Its address.
        account: The folder with the token and the authority of a service account.
    """

    def __init__(self, url: str, account: Path) -> None:
        self._url, self._account = url, account
        self._trust = ssl.create_default_context(cafile=str(account / "ca.crt"))

    @property
    def namespace(self) -> str:
        """Return the namespace of the pod."""
        return (self._account / "namespace").read_text()

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: Object | list[Object] | None = None,
        kind: str = "",
    ) -> Object | None:
        """Return the answer. None: there is no such object.

        Args:
            path: The path of the object.
            method: GET or PATCH.
            body: What is sent.
            kind: The media type of the body.

        Raises:
            HTTPError: Another answer than 2xx and 404.
        """
        token = (self._account / "token").read_text()
        headers = {"authorization": f"Bearer {token}", "content-type": kind or "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)  # noqa: S310 - of the pod
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._trust) as answer:  # noqa: S310
                return parsed(answer.read())
        except urllib.error.HTTPError as error:
            if error.code == MISSING:
                return None
            raise

    def items(self, path: str) -> Iterator[Object]:
        """Yield the objects of a list, and none if the kind or the namespace does not exist."""
        start, more = f"{path}{'&' if '?' in path else '?'}limit={PAGE}", ""
        while True:
            page = self.ask(start + (f"&continue={urllib.parse.quote(more)}" if more else "")) or {}
            yield from page.get("items", [])
            more = page.get("metadata", {}).get("continue", "")
            if not more:
                return


def parsed(text: bytes) -> Object:
    """Return a JSON object, as deep as a tenant may make it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(DEEPEST)
    try:
        return dict(json.loads(text))
    finally:
        sys.setrecursionlimit(before)


def define(api: Api, definition: Object) -> None:
    """Create or change a definition, unless a newer release has made the one that is there."""
    path = (
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
    )
    found = api.ask(path)
    if found is not None and _version(found) > _version(definition):
        print(f"The definition is of version {_text(found)}, which is newer. It stays.")
        return
    api.ask(f"{path}?fieldManager=skybridge-chart&force=true", "PATCH", definition, APPLIED)
    print(f"The definition is of version {_text(definition)} now.")


def _text(definition: Object) -> str:
    return str(definition["metadata"].get("annotations", {}).get(VERSION, ""))


def _version(definition: Object) -> list[int]:
    """Return the numbers of the version, such as [0, 1, 0]; what follows a hyphen or a plus has no order here."""
    plain = _text(definition).partition("-")[0].partition("+")[0]
    return [int(each) for each in plain.split(".") if each.isdigit()]


def end(api: Api, deployment: str, lease: str, component: str, namespaces: list[str]) -> bool:
    """End the operator, which would set its finalizers again, then release its Subscriptions. Return False if some
    could not be released."""
    here = f"/apis/apps/v1/namespaces/{api.namespace}/deployments/{deployment}/scale"
    api.ask(here, "PATCH", {"spec": {"replicas": 0}}, MERGED)
    _await_end(api, component)
    own = f"{api.namespace}/{lease}"
    done = [
        _is_released(api, each)
        for each in api.items(f"/apis/{GROUP}/v1alpha1/subscriptions")
        if _is_own(each, own, namespaces)
    ]
    print(f"{sum(done)} Subscriptions are released.")
    return all(done)


def _is_own(found: Object, own: str, namespaces: list[str]) -> bool:
    """Return True if an object belongs to an operator, or to none and to one of the namespaces."""
    operator = (found.get("status") or {}).get("operator")
    return bool(operator == own or (not operator and found["metadata"]["namespace"] in namespaces))


def _is_released(api: Api, found: Object) -> bool:
    """Release an object. Return False, and print why, if that fails: the other ones are released all the same."""
    try:
        _release(api, found)
    except urllib.error.HTTPError as error:
        print(_text_of(error))
        return False
    return True


def _release(api: Api, found: Object) -> None:
    """Remove the operator and its finalizer from an object."""
    named = found["metadata"]
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{named['namespace']}/subscriptions/{named['name']}"
    for left in reversed(range(TRIES)):
        try:
            if steps := _steps(found):
                api.ask(path, "PATCH", steps, STEPS)
            break
        except urllib.error.HTTPError as error:
            if error.code not in {CONFLICT, OTHERWISE} or not left:
                raise
        found = api.ask(path) or {"metadata": {}}
    if (found.get("status") or {}).get("operator"):
        api.ask(f"{path}/status", "PATCH", {"status": {"operator": None}}, MERGED)


def _steps(found: Object) -> list[Object]:
    """Return the change that takes our finalizer from an object. It fails only if another writer has changed the
    finalizers, so a tenant who changes the object all the time does not prevent it."""
    finalizers = found["metadata"].get("finalizers", [])
    if FINALIZER not in finalizers:
        return []
    place = f"/metadata/finalizers/{finalizers.index(FINALIZER)}"
    return [
        {"op": "test", "path": place, "value": FINALIZER},
        {"op": "remove", "path": place},
    ]


def _await_end(api: Api, component: str) -> None:
    """Wait until no pod of the operator is left. A pod on a lost node is not waited for longer than WITHIN."""
    deadline = time.monotonic() + WITHIN
    path = f"/api/v1/namespaces/{api.namespace}/pods?labelSelector={component}"
    while any(api.items(path)) and time.monotonic() < deadline:
        time.sleep(1)


def _text_of(error: urllib.error.HTTPError) -> str:
    return f"{error.url}: {error.code} {error.read(2000).decode(errors='replace')}"


def main(words: list[str]) -> int:
    """Run one of both commands and return the exit code."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("define").add_argument("file", type=Path)
    ending = commands.add_parser("end")
    ending.add_argument("--deployment", required=True)
    ending.add_argument("--lease", required=True)
    ending.add_argument("--component", required=True)
    ending.add_argument("namespaces", nargs="*")
    asked = parser.parse_args(words)
    host, port = (os.environ[f"KUBERNETES_SERVICE_{each}"] for each in ("HOST", "PORT"))
    api = Api(f"https://{f'[{host}]' if ':' in host else host}:{port}", ACCOUNT)
    try:
        if asked.command == "define":
            define(api, json.loads(asked.file.read_text()))
            return 0
        done = end(api, asked.deployment, asked.lease, asked.component, asked.namespaces)
    except urllib.error.HTTPError as error:
        print(_text_of(error))
        return 1
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A plain client of an API server for tests: objects of any kind by their paths, on a real server or the one in memory."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from app.kubernetes import paths
from app.kubernetes.names import API_VERSION, KIND, SECRET_LABEL, SECRET_USE

Object = dict[str, Any]
_MERGE = "application/merge-patch+json"


class Rest:
    """Asks the API server at ``url`` with the certificates of ``trust``."""

    def __init__(self, url: str, trust: ssl.SSLContext | None) -> None:
        self._url, self._trust = url, trust

    def ask(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json"
    ) -> Object:
        """Return the answer. Raises HTTPError if it is no success."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": kind, "accept": "application/json"}
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30, context=self._trust) as answer:
            found: Object = json.load(answer)
            return found

    def items(self, path: str) -> list[Object]:
        return list(self.ask("GET", path)["items"])

    def secret(self, namespace: str, name: str, value: str, *, labelled: bool = True) -> None:
        """Create a Secret with one key, ``secret``, or change it."""
        labels = {SECRET_LABEL: SECRET_USE if labelled else None}
        whole = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        self.put(paths.core(namespace, "secrets"), name, whole, {
            "metadata": {"labels": labels}, "data": {"secret": _base64(value)},
        })  # fmt: skip

    def subscription(self, namespace: str, name: str, spec: Object) -> None:
        """Create a Subscription, or replace its spec."""
        metadata = {"name": name, "namespace": namespace}
        path, whole = (
            paths.subscriptions(namespace),
            {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata},
        )
        try:
            found = self.ask("GET", f"{path}/{name}")
        except urllib.error.HTTPError:
            self.ask("POST", path, {**whole, "spec": spec})
        else:
            self.ask("PUT", f"{path}/{name}", {**found, "spec": spec})

    def put(self, path: str, name: str, whole: Object, change: Object) -> None:
        """Create an object if it does not exist, then change it by a merge patch."""
        try:
            self.ask("GET", f"{path}/{name}")
        except urllib.error.HTTPError:
            self.ask("POST", path, whole)
        self.ask("PATCH", f"{path}/{name}", change, _MERGE)

    def delete(self, path: str) -> None:
        self.ask("DELETE", path)


def _base64(text: str) -> str:

    return base64.b64encode(text.encode()).decode()

"""A small stand-in for the metrics server: the API from which the autoscaler reads the use of pods.

It answers for one namespace at a time with the figures of the kubelets.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import objects
from cluster import Cluster
from laboratory import Laboratory
from node import enter_network
from node_servers import ADDRESS

GROUP = "metrics.k8s.io/v1beta1"
_PORT = 4443
_SPACE = "kube-system"
_RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": GROUP,
    "resources": [
        {
            "name": "pods",
            "singularName": "",
            "namespaced": True,
            "kind": "PodMetrics",
            "verbs": ["get", "list"],
        }
    ],
}


@contextmanager
def metrics_api(lab: Laboratory, cluster: Cluster) -> Iterator[None]:
    """Serve the API during the block, and have the API server pass requests on to it."""
    lab.authority.issue("metrics", "metrics", addresses=(f"metrics.{_SPACE}.svc", ADDRESS))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(lab.authority.path("metrics.crt"), lab.authority.path("metrics.key"))
    server = _Server(("", 0), _handler(cluster), bind_and_activate=False)
    thread = threading.Thread(target=_serve, args=(lab, server, context), daemon=True)
    thread.start()
    registered = _registration()
    try:
        cluster.apply(*objects.beside(_SPACE, "metrics", ADDRESS, 443, _PORT), registered)
        service = f"apiservice/{registered['metadata']['name']}"
        cluster.kubectl("wait", service, "--for=condition=Available", "--timeout=60s")
        yield
    finally:
        cluster.kubectl("delete", "apiservice", registered["metadata"]["name"])
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True


def _serve(lab: Laboratory, server: _Server, context: ssl.SSLContext) -> None:
    enter_network(lab.first.process)
    server.server_address = (ADDRESS, _PORT)
    server.socket.close()
    server.socket = socket.create_server((ADDRESS, _PORT))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def _registration() -> dict[str, Any]:
    group, version = GROUP.split("/")
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": _SPACE, "name": "metrics", "port": 443},
        },
    }  # fmt: skip


def _handler(cluster: Cluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            answer = _answer(cluster, asked.path, parse_qs(asked.query))
            text = json.dumps(answer or {}).encode()
            self.send_response(200 if answer else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Write no log: the rows of the table are the log."""

    return Handler


def _answer(
    cluster: Cluster, path: str, query: Mapping[str, list[str]]
) -> Mapping[str, Any] | None:
    if path == f"/apis/{GROUP}":
        return _RESOURCES
    prefix, _, rest = path.partition("/namespaces/")
    space, _, kind = rest.partition("/")
    if prefix != f"/apis/{GROUP}" or kind != "pods":
        return None
    words = [f"--selector={each}" for each in query.get("labelSelector", [])]
    pods = cluster.get("pods", "-n", space, *words)
    used = _used(cluster)
    items = [_metrics(pod, used[uid]) for pod in pods if (uid := pod["metadata"]["uid"]) in used]
    return {"kind": "PodMetricsList", "apiVersion": GROUP, "metadata": {}, "items": items}


def _used(cluster: Cluster) -> Mapping[str, list[Mapping[str, Any]]]:
    """Return what the containers of each pod use, by the id of the pod."""
    found = {}
    for node in cluster.get("nodes"):
        path = f"/api/v1/nodes/{node['metadata']['name']}/proxy/stats/summary"
        for pod in json.loads(cluster.raw(path)).get("pods", []):
            found[pod["podRef"]["uid"]] = [
                each for each in pod.get("containers", []) if "cpu" in each
            ]
    return found


def _metrics(pod: Mapping[str, Any], containers: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    meta = {
        name: pod["metadata"].get(name)
        for name in ("name", "namespace", "labels", "creationTimestamp")
    }
    return {
        "metadata": meta,
        "timestamp": max(
            (each["cpu"]["time"] for each in containers), default=meta["creationTimestamp"]
        ),
        "window": "10s",
        "containers": [{"name": each["name"], "usage": _usage(each)} for each in containers],
    }


def _usage(container: Mapping[str, Any]) -> Mapping[str, str]:
    return {
        "cpu": f"{container['cpu'].get('usageNanoCores', 0)}n",
        "memory": str(container.get("memory", {}).get("workingSetBytes", 0)),
    }

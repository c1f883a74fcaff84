"""A real kube-apiserver with its etcd on loopback, without nodes: for tests of what speaks to Kubernetes.

::

    with api_server() as api:
        api.cluster.apply(...)                     # as an administrator
        api.grant("tenant", [...], "team-billing")  # a user with rights in one namespace
        api.kubeconfig("tenant")                   # the file with which this user speaks

The programs are those of the laboratory, which ``make kubernetes`` builds. Root is not needed.
"""

from __future__ import annotations

import json
import ssl
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import go_build
from cluster import Cluster
from node_certificates import Authority

from free_ports import free_ports
from kafka_install import Missing
from server_process import ServerProcess, answer_to
from waiting import wait_until

ADMIN = "admin"
_HOST = "127.0.0.1"
_SERVICES = "10.99.64.0/20"
_CONTROLLERS = "namespace-controller,serviceaccount-controller,garbage-collector-controller"
Object = Mapping[str, Any]


def program() -> Path:
    """Return the file with all programs of Kubernetes. Raises Missing if it is not built."""
    (node,) = (each for each in go_build.PROGRAMS if each.name == "node")
    built = go_build.built(node)
    if not built.is_file():
        raise Missing("Kubernetes is not built on this machine. Cure: make kubernetes")
    return built


class _Etcd(ServerProcess):
    """The store of the API server. It does not wait for the disk."""

    name = "etcd"

    def __init__(self, node: Path) -> None:
        super().__init__()
        self.port, self._peers = free_ports(2)
        self._node = node

    def begin(self) -> None:
        clients, peers = f"http://{_HOST}:{self.port}", f"http://{_HOST}:{self._peers}"
        self._process = self._spawn([
            str(self._node), "etcd", "--name=one", f"--data-dir={self.folder}/data", "--unsafe-no-fsync",
            f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=one={peers}",
        ])  # fmt: skip

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        answer = answer_to(ports["port"], b"GET /health HTTP/1.0\r\n\r\n")
        return b'"health":"true"' in answer

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        return f"http://{_HOST}:{ports['port']}"


class _Controllers(ServerProcess):
    """The controllers that delete namespaces, and make their service accounts."""

    name = "controllers"

    def __init__(self, node: Path, kubeconfig: Path, authority: Authority) -> None:
        super().__init__()
        (self.port,) = free_ports(1)
        self._command = [
            str(node), "kube-controller-manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false",
            f"--controllers={_CONTROLLERS}", "--use-service-account-credentials=false",
            f"--service-account-private-key-file={authority.path('accounts.key')}",
            f"--root-ca-file={authority.path('ca.crt')}", f"--secure-port={self.port}",
            f"--bind-address={_HOST}", f"--cert-dir={self.folder}",
        ]  # fmt: skip

    def begin(self) -> None:
        self._process = self._spawn(self._command)

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        return _is_ok(f"https://{_HOST}:{ports['port']}/healthz", trusting)

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        return f"https://{_HOST}:{ports['port']}"


class ApiServer(ServerProcess):
    """The API server. ``kill``, ``pause`` and ``start`` leave its address and its objects the same.

    Attributes:
        cluster: Runs kubectl as an administrator.
        authority: The authority of its certificates, and of those of its users.
    """

    name = "kube-apiserver"

    def __init__(self, node: Path) -> None:
        super().__init__()
        self._node = node
        (self.port,) = free_ports(1)
        self.authority = Authority(self.folder / "certificates")
        self.authority.issue("apiserver", "apiserver", addresses=(_HOST, "localhost"))
        self._trust = ssl.create_default_context(cafile=self.authority.path("ca.crt"))
        self._users: dict[str, Path] = {}
        self._etcd = _Etcd(node)
        self._controllers = _Controllers(
            node, self.kubeconfig(ADMIN, "system:masters"), self.authority
        )
        self.cluster = self.cluster_of(ADMIN)

    @property
    def url(self) -> str:
        return f"https://{_HOST}:{self.port}"

    def begin(self) -> None:
        if not self._etcd.answers():
            self._etcd.start()
        path = self.authority.path
        self._process = self._spawn([
            str(self._node), "kube-apiserver", f"--etcd-servers={_Etcd.addresses(self._etcd.ports)}",
            f"--bind-address={_HOST}", f"--advertise-address={_HOST}", f"--secure-port={self.port}",
            f"--service-cluster-ip-range={_SERVICES}", "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",  # which refuses an address of loopback
            f"--tls-cert-file={path('apiserver.crt')}", f"--tls-private-key-file={path('apiserver.key')}",
            f"--client-ca-file={path('ca.crt')}", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={path('accounts.pub')}",
            f"--service-account-signing-key-file={path('accounts.key')}",
            "--shutdown-delay-duration=0s",
        ])  # fmt: skip

    def answers(self) -> bool:
        return _is_ok(f"{self.url}/readyz", self._trust)

    @staticmethod
    def answering(ports: Mapping[str, int]) -> bool:
        return b"HTTP" in answer_to(ports["port"], b"GET / HTTP/1.0\r\n\r\n")

    @staticmethod
    def addresses(ports: Mapping[str, int]) -> str:
        return f"https://{_HOST}:{ports['port']}"

    def start_controllers(self) -> None:
        """Start the controllers without which a deleted namespace stays."""
        self._controllers.start()

    def stop(self) -> None:
        """Kill all programs and delete their data."""
        for each in (self._controllers, super(), self._etcd):
            each.stop()

    def kubeconfig(self, user: str, group: str = "") -> Path:
        """Return the kubeconfig of a user, whose certificate the first call makes.

        Args:
            user: The name of the user, such as ``system:serviceaccount:NAMESPACE:NAME``.
            group: The group of the user.
        """
        if user not in self._users:
            file = f"user{len(self._users)}"
            self.authority.issue(file, user, group)
            self._users[user] = self.folder / f"{file}.kubeconfig"
            self._users[user].write_text(json.dumps(self._client(file)))
        return self._users[user]

    def _client(self, file: str) -> Object:
        path = self.authority.path
        cluster = {"server": self.url, "certificate-authority": path("ca.crt")}
        user = {"client-certificate": path(f"{file}.crt"), "client-key": path(f"{file}.key")}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": user}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "current-context": "tests",
        }

    def cluster_of(self, user: str) -> Cluster:
        """Return kubectl as a user."""
        environ = ("env", f"KUBECONFIG={self.kubeconfig(user)}", f"HOME={self.folder}")
        return Cluster({"kubectl": [*environ, str(self._node), "kubectl"]})

    def grant(self, user: str, rules: Sequence[Object], namespace: str = "") -> None:
        """Give a user the rights of these rules in one namespace, or in all namespaces."""
        group = "rbac.authorization.k8s.io"
        kind = "Role" if namespace else "ClusterRole"
        named = {"name": user.replace(":", "."), **({"namespace": namespace} if namespace else {})}
        role = {
            "apiVersion": f"{group}/v1",
            "kind": kind,
            "metadata": named,
            "rules": list(rules),
        }
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": f"{kind}Binding",
            "metadata": named,
            "roleRef": {"apiGroup": group, "kind": kind, "name": named["name"]},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        self.cluster.apply(role, binding)

    def may(self, user: str, *words: str) -> bool:
        """Return the answer of ``kubectl auth can-i`` about a user, which ends with 1 after "no"."""
        try:
            return self.cluster.kubectl("auth", "can-i", *words, f"--as={user}").strip() == "yes"
        except RuntimeError as refusal:
            if ": no\n" not in str(refusal):
                raise
            return False

    def wait_until_may(self, user: str, *words: str) -> None:
        """Wait until the API server, which reads new Roles a little later, gives a user this right."""
        wait_until(lambda: self.may(user, *words), f"{user} may {' '.join(words)}", 60, turn=0.2)

    def add_namespace(self, name: str) -> None:
        """Make a namespace."""
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def add_definition(self, definition: Object) -> None:
        """Make a CustomResourceDefinition, and wait until the API server serves its objects."""
        self.cluster.apply(definition)
        name = f"crd/{definition['metadata']['name']}"
        self.cluster.kubectl("wait", "--for=condition=Established", name, "--timeout=60s")


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """Run an API server during the block. Raises Missing if Kubernetes is not built."""
    server = ApiServer(program())
    try:
        server.start()
        wait_until(lambda: server.cluster.get("namespace", "default"), "the namespace default")
        yield server
    finally:
        server.stop()


def _is_ok(url: str, trust: ssl.SSLContext) -> bool:
    """Return True if the answer to a GET of ``url`` is 200."""
    try:
        with urllib.request.urlopen(url, timeout=5, context=trust) as answer:
            return answer.status == 200
    except OSError:
        return False


if __name__ == "__main__":
    with api_server() as running:
        print(f"KUBECONFIG={running.kubeconfig(ADMIN)}", flush=True)
        sys.stdin.read()

"""A cluster of Kubernetes, spoken to by kubectl and Helm: the laboratory, or that of a context."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from kafka_install import Missing
from waiting import wait_until

_WITHIN = 600.0  # seconds: a bound on one command


class Cluster:
    """Runs kubectl and Helm. ``clients`` has the beginning of the command of each."""

    def __init__(self, clients: Mapping[str, Sequence[str]]) -> None:
        self._clients = clients

    @classmethod
    def of_context(cls, name: str) -> Cluster:
        """Return the cluster of a context of this user's kubectl. Raises Missing without programs."""
        for program in ("kubectl", "helm"):
            if shutil.which(program) is None:
                raise Missing(f"{program} is not on the path. Cure: install it")
        return cls({
            "kubectl": ["kubectl", "--context", name],
            "helm": ["helm", "--kube-context", name],
        })  # fmt: skip

    def kubectl(self, *words: str, stdin: str = "") -> str:
        return self.run([*self._clients["kubectl"], *words], stdin)

    def helm(self, *words: str, stdin: str = "") -> str:
        return self.run([*self._clients["helm"], *words], stdin)

    def started(self, *words: str) -> subprocess.Popen[str]:
        """Start kubectl, whose output is to be read while it runs."""
        return subprocess.Popen(
            [*self._clients["kubectl"], *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def get(self, kind: str, *words: str) -> list[dict[str, Any]]:
        """Return objects as the API server has them."""
        found = json.loads(self.kubectl("get", kind, "--output", "json", *words))
        return list(found["items"]) if "items" in found else [found]

    def raw(self, path: str) -> str:
        """Return the answer of the API server to a GET of a path."""
        return self.kubectl("get", "--raw", path)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create objects, or change them."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl(
            "apply",
            "--server-side",
            "--force-conflicts",
            "--filename",
            "-",
            stdin=json.dumps(listed),
        )

    def until(
        self, what: str, kind: str, condition: Any, *words: str, within: float = _WITHIN
    ) -> Any:
        """Wait until the objects of a kind fulfil a condition, and return its value."""
        return wait_until(lambda: condition(self.get(kind, *words)), what, within, turn=0.25)

    @staticmethod
    def run(words: Sequence[str], stdin: str = "") -> str:
        """Run a command and return its output. Raises RuntimeError with its output if it fails."""
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, check=False, timeout=_WITHIN
        )
        if done.returncode:
            command = " ".join(words[-8:])
            raise RuntimeError(f"{command}: {(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

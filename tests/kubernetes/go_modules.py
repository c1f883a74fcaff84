"""Write the go.mod of a program that is made of Kubernetes' own packages.

Kubernetes publishes its libraries (``k8s.io/api`` and some thirty more) as modules of their own,
but its go.mod replaces each by a folder of its repository. A program outside that repository has to
replace each by the published version that belongs to the release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_STAGED = "./staging/"


def library_version(kubernetes: str) -> str:
    """Return the version of the libraries of a release: v0.37.2 for 1.37.2."""
    _, minor, patch = kubernetes.split(".")
    return f"v0.{minor}.{patch}"


def staged(described: Mapping[str, Any]) -> list[str]:
    """Return the libraries that a go.mod replaces by folders.

    Args:
        described: The go.mod, as ``go mod edit -json`` prints it.
    """
    replaced = described.get("Replace") or []
    return [each["Old"]["Path"] for each in replaced if each["New"]["Path"].startswith(_STAGED)]


def required(described: Mapping[str, Any], module: str) -> str:
    """Return the version of a module that a go.mod requires."""
    (version,) = [each["Version"] for each in described["Require"] if each["Path"] == module]
    return str(version)


def written(
    name: str,
    go: str,
    requires: Sequence[tuple[str, str]],
    replaces: Sequence[tuple[str, str, str]] = (),
) -> str:
    """Return the text of a go.mod.

    Args:
        name: The name of the module.
        go: The version of the language.
        requires: Pairs of module and version.
        replaces: Modules, the modules that replace them, and their versions.
    """
    lines = [f"module skybridge/{name}", f"go {go}", f"godebug default=go{language(go)}"]
    lines += [f"require {module} {version}" for module, version in requires]
    lines += [f"replace {old} => {new} {version}" for old, new, version in replaces]
    return "\n".join(lines) + "\n"


def language(version: str) -> str:
    """Return major and minor of a version of Go: 1.26 for 1.26.0."""
    found = re.match(r"\d+\.\d+", version)
    assert found, version
    return found[0]


def of_kubernetes(kubernetes: str, description: str, name: str) -> str:
    """Return the go.mod of a program with Kubernetes' commands, kubectl and etcd in it.

    Args:
        kubernetes: The version of Kubernetes, such as 1.37.2.
        description: Kubernetes' go.mod, as ``go mod edit -json`` prints it.
        name: The name of the module.
    """
    described = json.loads(description)
    libraries, version = staged(described), library_version(kubernetes)
    etcd, cobra = "go.etcd.io/etcd/server/v3", "github.com/spf13/cobra"
    requires = [
        ("k8s.io/kubernetes", f"v{kubernetes}"),
        ("k8s.io/component-base", version),
        ("k8s.io/kubectl", version),
        *((module, required(described, module)) for module in (etcd, cobra)),
    ]
    return written(name, described["Go"], requires, [(each, each, version) for each in libraries])

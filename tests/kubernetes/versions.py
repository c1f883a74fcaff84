"""Name the versions of everything that the laboratory builds, and the folder where it keeps them.

The folder is outside the checkout, so that a new clone builds nothing again. Its name has the
version of Kubernetes; the file names of the programs have a digest of their sources.
"""

from __future__ import annotations

import os
from pathlib import Path

KUBERNETES = "1.37.2"
"""containerd 1.6 of Debian 12 speaks the old CRI, which Kubernetes after 1.37 does not fall back to."""
COREDNS = "1.14.7"
NETWORK_POLICIES = "0.8.0"
RUNTIME_SPEC = "1.2.1"
"""The newest version with which the network policies compile: a later one renamed a type."""

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]


def cache() -> Path:
    """Return the folder of the built programs: under XDG_CACHE_HOME, else under ~/.cache."""
    above = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return above / "skybridge" / f"kubernetes-{KUBERNETES}"

"""Read the part of a configuration that the operator needs, without the secrets of brokers and the store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.config.load.finding import BadConfiguration
from app.config.load.loader import content, load_sections
from app.config.model.config import Config
from app.config.model.operator import Operator
from app.errors import SetupError

_SECTIONS = ("version", "installation", "server", "limits", "timeouts", "log", "operator")
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def read_settings(file: Path | None, environ: Mapping[str, str]) -> tuple[Config, Operator]:
    """Return the configuration and its section ``operator``. Raise SetupError with every fault."""
    raw = content(file) if file is not None else None
    source = "" if file is None else str(file)
    try:
        config = load_sections(raw, _SECTIONS, environ)
    except BadConfiguration as bad:
        raise BadConfiguration(bad.findings, source=source) from None
    if config.operator is None:
        raise SetupError(
            "the configuration has no section operator",
            setting="operator",
            cure="list the namespaces under operator.namespaces",
        )
    return config, config.operator


def own_namespace() -> str:
    """Return the namespace of this pod, or ``default`` outside of a pod."""
    return _ACCOUNT.read_text().strip() if _ACCOUNT.is_file() else "default"

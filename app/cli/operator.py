"""``skybridge operator`` keeps subscriptions in step with Kubernetes objects."""

from __future__ import annotations

from app.cli import printing
from app.cli.options import ConfigFile
from app.cli.verbs import verb


@verb(
    "operator",
    "skybridge operator --config skybridge.yaml    # in a pod, or with KUBECONFIG",
)
def run(
    config: ConfigFile = None,
) -> None:
    """Make subscriptions of objects in Kubernetes.

    Each object of kind Subscription becomes a subscription, and shows its state. The namespaces are under
    operator.namespaces. Subscriptions are written through the admin API at operator.admin.url. Of several
    processes one is the leader. Events are delivered by others, so the end of an operator disturbs no delivery.
    """
    try:
        from app.kubernetes.run import serve
    except ModuleNotFoundError as missing:
        printing.fail(
            f"The Python package {missing.name} is missing.",
            cure="install the extra kubernetes (make install installs it, the images have it)",
        )
    serve(config)

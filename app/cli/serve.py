"""."""

EXAMPLES = ()


def run() -> None:
    """."""

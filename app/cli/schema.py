"""``skybridge schema``: what editors need to complete and check a configuration."""

from __future__ import annotations

EXAMPLES = (
    "skybridge schema > skybridge.schema.json",
    "# then make this the first line of the YAML file:",
    "# yaml-language-server: $schema=skybridge.schema.json",
)


def run() -> None:
    """Print the JSON Schema of the configuration file."""
    import json

    from app.config.schema import schema

    print(json.dumps(schema(), indent=2))

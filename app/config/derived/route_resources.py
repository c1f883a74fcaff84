"""The resources that routes refer to: key mappers of an operator, and files with schemas of data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from app.config.derived.key_mappers import load_key_mappers
from app.errors import SetupError
from app.model.route import DataSchema, Route
from app.routing.data_schema import Check, compile_check
from app.routing.plan import Resources
from app.tls import read_regular


def load_resources(routes: Iterable[Route]) -> Resources:
    """Read the schema files and import the key mappers of the routes. Raise SetupError with the
    setting at fault.
    """
    routes = tuple(routes)
    checks = {
        route.name: load_check(route.data_schema, f"routes.{route.name}.schema")
        for route in routes
        if route.data_schema is not None
    }
    return Resources(load_key_mappers(routes), checks)


def load_check(setting: DataSchema, at: str) -> Check:
    """Compile the schema check of a route. ``at`` is the path of the setting, which errors name."""
    return compile_check(setting, {str(file): read_schema(file, at) for file in setting.files}, at)


def read_schema(file: Path, at: str) -> bytes:
    """Return the content of a schema file. ``at`` is the path of the setting, which errors name."""
    try:
        return read_regular(file)
    except OSError as error:
        raise SetupError(
            f"The file {file} cannot be read: {error.strerror}.",
            setting=at,
            cure="Name a file that this user may read.",
        ) from error

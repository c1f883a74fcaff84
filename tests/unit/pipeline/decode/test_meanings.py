"""What names mean: by the table of versions, for members of documents and headers of each broker."""

from __future__ import annotations

import pytest

from app.event.versions import VERSIONS
from app.pipeline.decode.bindings import KAFKA, PULSAR, ColumnBinding
from app.pipeline.decode.meanings import (
    COLUMN_OF,
    DOUBTFUL,
    EXTENSION,
    FOREIGN,
    NAMES,
    Meaning,
    meaning,
)


@pytest.mark.parametrize("name", VERSIONS)
def test_every_rule_of_a_version_has_a_column(name: str) -> None:
    """A further row in the table of versions is decoded by column, or in doubt; never passed over."""
    version = VERSIONS[name]
    for own in version.rules:
        newest = version.newest.get(own, own)
        found = meaning(version, own)
        if not newest:
            assert found == DOUBTFUL
        elif newest in COLUMN_OF:
            assert found == Meaning(COLUMN_OF[newest])
        else:
            assert found == Meaning(EXTENSION, newest, text_only=True)


@pytest.mark.parametrize(
    ("version", "own", "found"),
    [
        ("1.0", "tenant", Meaning(EXTENSION, "tenant")),
        ("1.0", "schemaurl", Meaning(EXTENSION, "schemaurl")),
        ("1.0-rc1", "schemaurl", DOUBTFUL),
        ("1.0", "Tenant", DOUBTFUL),
        ("1.0", "data", DOUBTFUL),
        ("0.3", "dataschema", DOUBTFUL),
        ("0.2", "9x", DOUBTFUL),
        ("0.2", "a-b", DOUBTFUL),
        ("0.2", "subject", Meaning(COLUMN_OF["subject"], text_only=True)),
        ("0.1", "extensions/MyExt", Meaning(EXTENSION, "myext")),
        ("0.1", "extensions/my-ext", DOUBTFUL),
        ("0.1", "tenant", DOUBTFUL),
    ],
)
def test_names(version: str, own: str, found: Meaning) -> None:
    assert meaning(VERSIONS[version], own) == found


@pytest.mark.parametrize(
    ("binding", "version", "header", "found"),
    [
        (KAFKA, "1.0", "ce_id", Meaning(COLUMN_OF["id"])),
        (KAFKA, "1.0", "content-type", FOREIGN),
        (KAFKA, "1.0", "x-trace", FOREIGN),
        (KAFKA, "1.0", "CE_id", DOUBTFUL),
        (KAFKA, "1.0", "ce_datacontenttype", DOUBTFUL),
        (KAFKA, "0.2", "ce_contenttype", DOUBTFUL),
        (KAFKA, "0.1", "CE-EventID", Meaning(COLUMN_OF["id"])),
        (KAFKA, "0.1", "CE-X-Tenant", Meaning(EXTENSION, "tenant")),
        (KAFKA, "0.1", "ce_id", DOUBTFUL),
        (PULSAR, "1.0", "CE-Id", Meaning(COLUMN_OF["id"])),
        (PULSAR, "1.0", "CE-X-Tenant", Meaning(EXTENSION, "tenant")),
        (PULSAR, "1.0", "ce_id", DOUBTFUL),
        (PULSAR, "0.1", "CE-EventID", Meaning(COLUMN_OF["id"])),
        (PULSAR, "0.1", "CE-SchemaURI", Meaning(COLUMN_OF["dataschema"])),
    ],
)
def test_headers(binding: ColumnBinding, version: str, header: str, found: Meaning) -> None:
    assert binding.meanings[NAMES.index(version)][header] == found

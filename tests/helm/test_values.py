"""Every value does something, stands in the schema, and is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

import chart
import chart_secrets
from app.config.model.schema import schema
from pages import CHECKOUT, blocks

pytestmark = pytest.mark.usefixtures("helm_program")

VALUES = yaml.safe_load((chart.CHART / "values.yaml").read_text())
GUIDE = CHECKOUT / "docs" / "guides" / "deploy.md"
SECRETS = list(chart_secrets.paths(chart_secrets.definitions()["config"]))


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        here = (*path, name)
        if isinstance(value, dict) and value and name not in {"labels", "requests", "limits"}:
            yield from leaves(value, here)
        else:
            yield here


def at(values: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        if not isinstance(values, dict) or step not in values:
            return None
        values = values[step]
    return values


def without(values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    step, *rest = path
    kept = dict(values)
    if rest:
        kept[step] = without(kept[step], tuple(rest))
    else:
        del kept[step]
    return kept


SETS = {case: yaml.safe_load(case.read_text()) for case in chart.CASES}


def _setting(path: tuple[str, ...]) -> Iterator[Any]:
    """The cases that set a value to something else than it is by default."""
    for case, values in SETS.items():
        given = at(values, path)
        if given is not None and given != at(VALUES, path):
            yield case, values


def test_every_value_is_named_by_a_template_and_set_by_a_case():
    """The quick half of the next one, which renders a hundred times."""
    templates = "".join(path.read_text() for path in (chart.CHART / "templates").rglob("*.*"))
    alerts = (chart.CHART / "files/alerts.yaml").read_text()
    unnamed = [
        path
        for path in leaves(VALUES)
        if not re.search(rf"[.]{path[-1]}\b", templates)
        and f"$({path[-1]})" not in alerts
        and not re.search(rf"[.]{path[0]}\b", templates)
    ]
    assert unnamed == []
    assert [".".join(path) for path in leaves(VALUES) if not any(_setting(path))] == []


@pytest.mark.nightly
def test_every_value_changes_what_is_rendered():
    """A value that nothing reads misleads (issue 9). Where a case of tests/helm/values sets one, the rendering
    is another without it, or is refused; and each is set by some case."""

    def is_idle(path: tuple[str, ...]) -> bool:
        return not any(_differs(case, values, path) for case, values in _setting(path))

    paths = list(leaves(VALUES))
    with ThreadPoolExecutor(2) as pool:  # each waits for its Helm
        idle = list(pool.map(is_idle, paths))
    assert [".".join(path) for path, each in zip(paths, idle, strict=True) if each] == []


def _differs(case, values: dict[str, Any], path: tuple[str, ...]) -> bool:
    try:
        return chart.rendered_with(without(values, path)) != chart.rendered(case)
    except chart.Refused:
        return True


def test_a_value_that_nothing_reads_would_be_found():
    """The long one can fail: a value that is what it is by default changes nothing."""
    case = chart.case("single")
    idle = {**SETS[case], "preStopSeconds": VALUES["preStopSeconds"]}
    assert not _differs(case, idle, ("preStopSeconds",))
    told = {**SETS[case], "preStopSeconds": VALUES["preStopSeconds"] + 1}
    assert chart.rendered_with(told) != chart.rendered(case)


def test_the_schema_names_every_value_and_no_other():
    """Else a value cannot be set, or a misspelt one passes."""
    schema = json.loads((chart.CHART / "values.schema.json").read_text())

    def named(of: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if "properties" not in of:
            yield path
            return
        assert of["additionalProperties"] is False, path
        for name, each in of["properties"].items():
            yield from named(each, (*path, name))

    def trimmed(path: tuple[str, ...]) -> tuple[str, ...]:
        return path[: path.index("resources") + 1] if "resources" in path else path

    in_schema = {trimmed(path) for path in named(schema, ())} - {("global",)}
    assert in_schema == {trimmed(path) for path in leaves(VALUES)}


def test_the_schema_names_every_secret_of_the_configuration():
    """A secret setting that is new makes this fail: `make chart`."""
    given = json.loads((chart.CHART / "values.schema.json").read_text())
    assert given["definitions"] == chart_secrets.definitions()
    model = schema()
    known = model.pop("$defs")

    def marked(node: Any, path: tuple[str, ...], above: tuple[str, ...]) -> Iterator[Any]:
        """By nothing but the mark, wherever it stands."""
        if isinstance(node, list):
            node = dict(enumerate(node))
        if not isinstance(node, dict):
            return
        if node.get("format") == "password":
            yield path
        name = node.get("$ref", "").rpartition("/")[2]
        if name and name not in above:
            yield from marked(known[name], path, (*above, name))
        for keyword, each in node.items():
            if keyword == "properties":
                for setting, inner in each.items():
                    yield from marked(inner, (*path, setting), above)
            else:
                yield from marked(each, path, above)

    places = {"*", "0", "some.password"}
    found = {tuple(step for step in path if step not in places) for path in SECRETS}
    assert found == set(marked(model, (), ()))


def _config(path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    step, *rest = path
    inner = _config(tuple(rest), value)
    return [inner] if step == "0" else {step.replace("*", "a-name"): inner}


def _refusal(path: tuple[str, ...], value: Any) -> str:
    try:
        config = _config(path, value)
        config.setdefault("server", {}).setdefault("events", {"access": "open"})
        chart.rendered_with({"config": {"version": 1, **config}})
    except chart.Refused as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("path", SECRETS, ids=".".join)
def test_a_secret_that_stands_in_the_values_is_refused(path):
    """It would lie in a ConfigMap and in Helm's history. The message names setting and cure, not the secret."""
    said = _refusal(path, "hunter2")
    assert "${env:NAME}" in said
    assert path[-1].replace("*", "a-name") in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("path", "value", "taken"),
    [
        (("webhooks", "proxy"), "http://proxy.example:3128", True),
        (("webhooks", "proxy"), "http://shop@proxy.example:3128", True),
        (("webhooks", "proxy"), "http://shop:${env:PASSWORD}@proxy.example:3128", True),
        (("webhooks", "proxy"), "http://shop:hunter2@proxy.example:3128", False),
        (("store", "dsn"), "postgresql://db.shops/shop?password=hunter2", False),
        (("server", "admin", "token"), "${file:/etc/skybridge-secrets/admin/token}", True),
        (("server", "admin", "token"), None, True),
        (("server", "admin", "token"), 1234567812345678, False),
        (("pipeline", "spark", "conf"), {"spark.executor.memory": "4g"}, True),
    ],
)
def test_a_reference_or_an_address_without_password_is_no_secret(path, value, taken):
    """A password may be one part of an address."""
    assert bool(_refusal(path, value)) is not taken


def test_the_values_keep_to_their_schema():
    """`helm lint` with nothing chosen."""
    assert chart.helm("lint", "--strict", "--quiet", str(chart.CHART)) == ""


def test_every_group_of_values_is_told():
    """In the guide, as the answer to a question."""
    guide = GUIDE.read_text()
    named = set(re.findall(r"`([a-zA-Z]+)[.`=:]", guide))
    assert sorted(set(VALUES) - named) == []


def test_the_values_of_the_guide_are_rendered():
    """What a newcomer pastes first must work."""
    examples = [block for block in blocks(GUIDE) if "tests/helm renders" in block.reason]
    assert examples
    for example in examples:
        assert chart.rendered_with(yaml.safe_load(example.text))

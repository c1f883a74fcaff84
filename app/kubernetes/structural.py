"""Convert a JSON Schema of pydantic into a structural schema, which Kubernetes demands of a custom resource.

A structural schema has no references, one type a value, and no alternatives of different types. Where the model
allows such alternatives, the schema leaves the value open, and the admin API checks it. A secret becomes a reference
to a key of a Secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Node = dict[str, Any]

_DEPTH = 3  # levels of a recursive schema; deeper levels are open
_OPEN = "x-kubernetes-preserve-unknown-fields"
_KEPT = (
    *("description", "enum", "pattern", "minLength", "maxLength", "minItems", "maxItems"),
    *("minProperties", "maxProperties", "minimum", "maximum"),
)
SECRET_REF, PREVIOUS_SECRET_REF = "secretRef", "previousSecretRef"


class Structural:
    """A conversion of the schemas of one model. ``definitions`` are its ``$defs``."""

    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._definitions = definitions

    def convert(self, node: Node, seen: tuple[str, ...] = ()) -> Node:
        """Return the structural schema of a JSON Schema. ``seen`` are the references on the way to it."""
        node, seen = self._resolved(node, seen)
        if any(seen.count(name) >= _DEPTH for name in seen):
            return {"type": "object", _OPEN: True, **_text(node)}
        forms = [each for each in _forms(node) if each.get("type") != "null"]
        if len(forms) == 1:
            return {**self.convert({**node_without_forms(node), **forms[0]}, seen), **_text(node)}
        if forms:
            return self._union(node, forms, seen)
        made = _values(node)
        if "properties" in node:
            made |= self._object(node, seen)
        elif node.get("type") == "object":
            made |= self._members(node, seen)
        if "items" in node:
            made["items"] = self.convert(node["items"], seen)
        return made if "type" in made else {_OPEN: True, **_text(node)}

    def _resolved(self, node: Node, seen: tuple[str, ...]) -> tuple[Node, tuple[str, ...]]:
        reference = node.get("$ref", "")
        if not reference:
            return node, seen
        name = reference.rpartition("/")[2]
        return {**self._definitions[name], **_text(node)}, (*seen, name)

    def _object(self, node: Node, seen: tuple[str, ...]) -> Node:
        """Return the properties of an object, with references in place of its secrets."""
        needed = [*node.get("required", ())]
        properties: Node = {}
        for name, inner in node["properties"].items():
            if not is_secret(inner):
                properties[name] = self.convert(inner, seen)
                continue
            reference = reference_name(name)
            properties[reference] = secret_reference(reference)
            if name in needed:
                needed[needed.index(name)] = reference
        return {"properties": properties, **({"required": sorted(needed)} if needed else {})}

    def _members(self, node: Node, seen: tuple[str, ...]) -> Node:
        """Return the schema of the values of a mapping with free names. A secret value is text or a reference, so the
        mapping itself is open: no rule could name a mapping of open values."""
        patterns = [*node.get("patternProperties", {}).values()]
        inner = patterns[0] if patterns else node.get("additionalProperties")
        if not isinstance(inner, dict) or is_secret(inner):
            return {_OPEN: True}
        return {"additionalProperties": self.convert(inner, seen)}

    def _union(self, node: Node, forms: Sequence[Node], seen: tuple[str, ...]) -> Node:
        """Return the schema of alternatives: one for mappings with a ``kind``, text or number, or an open one."""
        resolved = [self._resolved(each, seen)[0] for each in forms]
        types = {each.get("type") for each in resolved}
        if "discriminator" in node:
            return self._by_kind(node, resolved, seen)
        if types <= {"string", "number", "integer"}:
            return {"x-kubernetes-int-or-string": True, **_values(node)}
        if all("properties" in each or _forms(each) for each in resolved):
            return {"type": "object", _OPEN: True, **_text(node)}
        return {_OPEN: True, **_text(node)}

    def _by_kind(self, node: Node, forms: Sequence[Node], seen: tuple[str, ...]) -> Node:
        """Return the union of mappings that differ by a property such as ``kind``, with a rule for each kind."""
        selector = node["discriminator"]["propertyName"]
        made = {each["properties"][selector]["const"]: self._object(each, seen) for each in forms}
        properties: Node = {}
        for each in made.values():
            properties = {**each["properties"], **properties}
        properties[selector] = {"type": "string", "enum": sorted(made)}
        rules = [
            rule for kind, each in sorted(made.items()) for rule in _of_kind(selector, kind, each, properties)
        ]  # fmt: skip
        return {
            "type": "object",
            "properties": properties,
            "required": [selector],
            "x-kubernetes-validations": rules,
            **_text(node),
        }


def reference_name(setting: str) -> str:
    """Return the name of the reference that an object has in place of a secret setting."""
    return PREVIOUS_SECRET_REF if setting.startswith("previous_") else SECRET_REF


def secret_reference(name: str) -> Node:
    """Return the schema of a reference to a key of a Secret in the object's namespace."""
    meaning = "the secret before it" if name == PREVIOUS_SECRET_REF else "the secret"
    text = {"type": "string", "minLength": 1, "maxLength": 253}
    return {
        "type": "object",
        "description": f"{meaning}: a key of a Secret in the namespace of the object",
        "properties": {
            "name": {"description": "name of the Secret", **text},
            "key": {"description": "key in the Secret", **text},
        },
        "required": ["name", "key"],
    }


def is_secret(node: Node) -> bool:
    """Return True if the value of a schema is a secret."""
    return node.get("format") == "password" or any(is_secret(each) for each in _forms(node))


def node_without_forms(node: Node) -> Node:
    """Return a schema without its alternatives."""
    return {name: value for name, value in node.items() if name not in {"anyOf", "oneOf"}}


def _of_kind(selector: str, kind: str, made: Node, properties: Node) -> Iterator[Node]:
    """Yield the rules of one kind: the settings that it needs, and those that it does not have."""
    needed = [name for name in made.get("required", ()) if name != selector]
    foreign = sorted({*properties} - {*made["properties"]})
    for names, form, word in (
        (needed, "has(self.{})", "needs"),
        (foreign, "!has(self.{})", "has no"),
    ):
        if names:
            parts = " && ".join(form.format(name) for name in names)
            listed = ", ".join(names)
            yield {
                "rule": f"self.{selector} != '{kind}' || ({parts})",
                "message": f"{selector} {kind} {word} {listed}",
            }  # fmt: skip


def _forms(node: Node) -> Sequence[Node]:
    found: Sequence[Node] = node.get("anyOf") or node.get("oneOf") or ()
    return found


def _text(node: Node) -> Node:
    return {"description": node["description"]} if "description" in node else {}


def _values(node: Node) -> Node:
    """Return the constraints of a value, as Kubernetes writes them."""
    made = {name: node[name] for name in _KEPT if name in node}
    if isinstance(node.get("type"), str):
        made["type"] = node["type"]
    if "const" in node:
        made["enum"] = [node["const"]]
    if "exclusiveMinimum" in node:
        made |= {"minimum": node["exclusiveMinimum"], "exclusiveMinimum": True}
    return made

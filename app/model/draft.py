"""Convert between the subscription object of the CloudEvents Subscriptions API draft (0.1-wip) and Skybridge's
document.

====================  ====================================================================================
draft                 Skybridge
====================  ====================================================================================
``id``                ``id``
``source``            the filter ``{exact: {source: ...}}``: all events must match it
``types``             the filter ``{any: [{exact: {type: ...}}, ...]}``: the event's type must be one of them
``filters``           ``filters``, after those two; the dialects are the same
``config``            ``broker`` and ``topics`` of ``source``, and every other setting by its name
``sink``              ``sink``, a URL
``protocol``          always ``HTTP``; other protocols are refused
``protocolsettings``  ``method: POST``; ``headers`` are ``headers``
``sinkcredential``    ``PLAIN`` is ``auth`` of kind basic, ``ACCESSTOKEN`` of kind bearer
====================  ====================================================================================

Nothing is lost: settings without a member in the draft go into ``config``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import Fault

PROTOCOL = "HTTP"
_MEMBERS = frozenset(
    {"id", "source", "types", "config", "filters", "sink"}
    | {"protocol", "protocolsettings", "sinkcredential"}
)
_ELSEWHERE = frozenset(
    {"id", "source", "filters", "sink", "headers"}
)  # settings that ``config`` may not hold
_BASIC = {"identifier": "username", "secret": "password"}
_BEARER = {"accesstoken": "token"}
_KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "PLAIN": ("basic", _BASIC),
    "ACCESSTOKEN": ("bearer", _BEARER),
}
_UNKEPT = frozenset(
    {"accesstokenexpiresutc", "accesstokentype"}
)  # members of a token that Skybridge cannot renew

Draft = Mapping[str, Any]
"""The draft's subscription object."""


class _Reader:
    """Reads members of a draft object and collects faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def wrong(self, at: str, detail: str) -> None:
        """Add a fault at a JSON Pointer."""
        self.faults.append(Fault("draft", f"{at.strip('/').replace('/', '.')}: {detail}", at))

    def typed(
        self, draft: Draft, name: str, kind: type, word: str, default: Any, within: str = ""
    ) -> Any:
        """Return the member ``name``, or ``default`` if it is absent or has the wrong type, which is a fault.

        Args:
            draft: The object with the member.
            name: The name of the member.
            kind: The type of the value.
            word: The type in words, for the fault.
            default: The value if there is none.
            within: The JSON Pointer to ``draft`` in the whole object.
        """
        value = draft.get(name)
        if value is None:
            return default
        if not isinstance(value, kind):
            self.wrong(f"{within}/{name}", f"is {word}")
            return default
        return value


def from_draft(draft: Draft) -> tuple[dict[str, Any], list[Fault]]:
    """Return Skybridge's document for a draft object, and the faults of members that cannot be kept.

    The document itself is validated later, by the model.
    """
    reader = _Reader()
    for name in draft.keys() - _MEMBERS:
        reader.wrong(f"/{name}", "is not a member of the draft's subscription")
    headers = _protocol(draft, reader)
    config = dict(reader.typed(draft, "config", dict, "a map", {}))
    for name in config.keys() & _ELSEWHERE:
        reader.wrong(f"/config/{name}", "has its own member in the draft")
    if "auth" in config and "sinkcredential" in draft:
        reader.wrong("/config/auth", "is already given by sinkcredential")
    source = {name: config.pop(name) for name in ("broker", "topics") if name in config}
    document: dict[str, Any] = {
        **({"id": draft["id"]} if "id" in draft else {}),
        **config,
        "source": source,
        "filters": _filters(draft, reader),
        "sink": draft.get("sink"),
    }
    auth = _auth(draft, reader)
    return {**document, **headers, **auth}, reader.faults


def _protocol(draft: Draft, reader: _Reader) -> dict[str, Any]:
    """Return the setting ``headers`` if the draft object has headers."""
    if draft.get("protocol") != PROTOCOL:
        reader.wrong("/protocol", f"is {PROTOCOL}, in capitals; other protocols are not supported")
    settings = reader.typed(draft, "protocolsettings", dict, "a map", {})
    for name, value in settings.items():
        if name not in {"method", "headers"}:
            reader.wrong(f"/protocolsettings/{name}", "is not supported: only method and headers")
        elif name == "method" and value != "POST":
            reader.wrong("/protocolsettings/method", "is POST")
    headers = reader.typed(settings, "headers", dict, "a map", {}, "/protocolsettings")
    return {"headers": headers} if headers else {}


def _filters(draft: Draft, reader: _Reader) -> list[Any]:
    found: list[Any] = []
    source = reader.typed(draft, "source", str, "a URI reference", None)
    if source is not None:
        found.append({"exact": {"source": source}})
    types = reader.typed(draft, "types", list, "a list of types", None)
    if types is not None:
        found.append({"any": [{"exact": {"type": each}} for each in types]})
    found += reader.typed(draft, "filters", list, "a list of filters", [])
    return found


def _auth(draft: Draft, reader: _Reader) -> dict[str, Any]:
    credential = reader.typed(draft, "sinkcredential", dict, "a map", None)
    if credential is None:
        return {}
    kind = _KINDS.get(str(credential.get("credentialtype")))
    if kind is None:
        reader.wrong(
            "/sinkcredential/credentialtype",
            "is PLAIN or ACCESSTOKEN; for tokens that are renewed write config.auth of kind oauth2",
        )
        return {}
    name, members = kind
    for member in credential.keys() - {"credentialtype", *members, *_UNKEPT}:
        reader.wrong(f"/sinkcredential/{member}", "is not a member of this credential")
    given = {
        setting: credential[member] for member, setting in members.items() if member in credential
    }
    return {"auth": {"kind": name, **given}}


def to_draft(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the draft object of a document, or None if its sink is no URL: the draft has only URLs."""
    if not isinstance(document.get("sink"), str):
        return None
    filters = list(document.get("filters") or ())
    source, types = _taken_source(filters), _taken_types(filters)
    credential = _credential(document.get("auth"))
    headers = document.get("headers")
    mapped = {"id", "source", "filters", "sink", "headers"} | ({"auth"} if credential else set())
    rest = {name: value for name, value in document.items() if name not in mapped}
    return {
        "id": document["id"],
        **({} if source is None else {"source": source}),
        **({} if types is None else {"types": types}),
        "config": {**document["source"], **rest},
        "filters": filters,
        "sink": document["sink"],
        "protocol": PROTOCOL,
        **({"protocolsettings": {"headers": headers}} if headers else {}),
        **({"sinkcredential": credential} if credential else {}),
    }


def _taken_source(filters: list[Any]) -> str | None:
    """Remove and return the source filter that ``from_draft`` puts first. Return None if there is no such filter."""
    match filters[:1]:
        case [{"exact": {"source": str(source), **more}, **others}] if not more and not others:
            del filters[0]
            return source
    return None


def _taken_types(filters: list[Any]) -> Sequence[str] | None:
    """Remove and return the types of the filter that ``from_draft`` puts after the source filter. Return None if
    there is no such filter."""
    match filters[:1]:
        case [{"any": [*choices], **others}] if choices and not others:
            types = [_type(choice) for choice in choices]
            if None not in types:
                del filters[0]
                return [each for each in types if each is not None]
    return None


def _type(choice: Any) -> str | None:
    match choice:
        case {"exact": {"type": str(kind), **more}, **others} if not more and not others:
            return kind
    return None


def _credential(auth: Any) -> dict[str, Any] | None:
    """Return the draft's credential for a setting ``auth``, or None if the draft has none: ``config`` then has
    ``auth``.
    """
    if not isinstance(auth, dict):
        return None
    for kind, (name, members) in _KINDS.items():
        if auth.get("kind") == name and auth.keys() == {"kind", *members.values()}:
            shown = {member: auth[setting] for member, setting in members.items()}
            return {"credentialtype": kind, **shown}
    return None

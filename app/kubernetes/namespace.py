"""One listed namespace: its objects, labelled Secrets and Services, and its rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from app.config.model.operator import OperatorNamespace
from app.kubernetes import paths
from app.kubernetes.client import KubernetesClient
from app.kubernetes.document import may_name_service, named_service, secrets_of
from app.kubernetes.names import SECRET_LABEL, SECRET_USE
from app.kubernetes.outcome import NotAccepted
from app.kubernetes.rights import NamespaceRights
from app.kubernetes.secret_texts import SecretTexts
from app.kubernetes.watched import Watched
from app.model.subscription import Subscription
from app.model.webhook import OAuth2

_POINTS_ANYWHERE = "ExternalName"


class Namespace:
    """The copies of one namespace.

    Attributes:
        name: The name of the namespace.
        rights: What its subscriptions may name.
    """

    def __init__(
        self,
        client: KubernetesClient,
        settings: OperatorNamespace,
        changed: Callable[[tuple[str, str]], None],
        operator: str = "",
        most_bytes: int = 65536,
    ) -> None:
        """Take the parts.

        Args:
            client: The client of the API server.
            settings: The rights of the namespace.
            changed: A function that is called with the key of each object that has to be looked at.
            operator: The name by which objects show their operator in ``status.operator``.
            most_bytes: The most bytes of a spec as JSON. A larger one is refused.
        """
        self.name = settings.name
        self._most_bytes = most_bytes
        # the Secrets that an object names, by name of the object, with its uid and generation
        self._named: dict[str, tuple[tuple[str, int], frozenset[str]]] = {}
        self._operator = operator
        self.rights = NamespaceRights(settings)
        self._changed = changed
        labelled = {"labelSelector": f"{SECRET_LABEL}={SECRET_USE}"}
        self._objects = Watched(
            client, paths.subscriptions(self.name), self._object_changed, shape=self._shape
        )
        core = paths.core
        self._secrets = Watched(client, core(self.name, "secrets"), self._secret_changed, labelled)
        self._services = Watched(client, core(self.name, "services"), self._service_changed)

    @property
    def objects(self) -> Mapping[str, Any]:
        """Return the objects by name."""
        return self._objects.objects

    @property
    def troubles(self) -> list[str]:
        """Return why the copies may be old."""
        return [each.trouble for each in self._all if each.trouble]

    @property
    def _all(self) -> tuple[Watched, ...]:
        return self._objects, self._secrets, self._services

    async def run(self) -> None:
        """Keep the copies up to date until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._all:
                group.create_task(each.run())

    @property
    def knows_objects(self) -> bool:
        """Return True if the copy of the objects was complete once. It is enough to delete a subscription: the Secrets
        of a namespace that ends cannot be read."""
        return self._objects.complete

    @property
    def is_complete(self) -> bool:
        """Return True if each copy was complete once. Before, a missing object may only be unknown."""
        return all(each.complete for each in self._all)

    @property
    def denial(self) -> str:
        """Return which right to read the namespace is missing, or ""."""
        return " ".join(each.trouble for each in self._all if each.is_forbidden)

    def secrets(self) -> SecretTexts:
        """Return the reader of the labelled Secrets."""
        return SecretTexts(self._secrets.objects)

    def is_foreign(self, item: Any) -> bool:
        """Return True if the operator of another installation has the object."""
        found = (item.get("status") or {}).get("operator")
        return bool(found) and found != self._operator

    def demand(self, wanted: Subscription, *, own_service: bool) -> None:
        """Raise NotAccepted if the namespace may not have a subscription. ``own_service`` is True if the operator wrote
        its URL for a Service of the namespace."""
        token = wanted.auth.token_endpoint if isinstance(wanted.auth, OAuth2) else ""
        for url in (wanted.webhook_url, token):
            self._demand_service(named_service(self.name, url))
        self.rights.demand(wanted, own_service=own_service)

    def _demand_service(self, name: str) -> None:
        """Raise NotAccepted if a Service is a name for any other address. A missing Service may come later.

        The addresses of a Service without a selector are those that the tenant writes, also of other namespaces.
        """
        found = self._services.objects.get(name)
        if found is None:
            return
        spec = found["spec"]
        if spec.get("type") == _POINTS_ANYWHERE or not spec.get("selector"):
            raise NotAccepted(
                "ServiceNotAllowed",
                f"The Service {name} has the type {_POINTS_ANYWHERE} or no selector, so it can point to any address. "
                "Cure: use a Service with a selector, or the URL of that address as sink.url.",
            )

    def _shape(self, item: Any) -> object:
        """Return what of an object this operator does not write itself."""
        named = item["metadata"]
        ends = named.get("deletionTimestamp"), named.get("finalizers")
        return named["uid"], named["generation"], ends, self.is_foreign(item)

    def _object_changed(self, name: str) -> None:
        if name not in self.objects:
            self._named.pop(name, None)
        self._changed((self.name, name))

    def _secret_changed(self, name: str) -> None:
        for each, item in self.objects.items():
            if name in self._secrets_of(each, item):
                self._changed((self.name, each))

    def _secrets_of(self, name: str, item: Any) -> frozenset[str]:
        """Return the Secrets that an object names. Each version of an object is searched once, because a tenant may have
        many large objects and change a Secret all the time."""
        version = item["metadata"]["uid"], item["metadata"]["generation"]
        known = self._named.get(name)
        if known is None or known[0] != version:
            known = self._named[name] = version, secrets_of(item, self._most_bytes)
        return known[1]

    def _service_changed(self, name: str) -> None:
        for each, item in self.objects.items():
            if may_name_service(item, name):
                self._changed((self.name, each))

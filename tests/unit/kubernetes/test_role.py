"""The leader reports why its objects may be out of step."""

import asyncio

from app.config.model.operator import Operator
from app.interfaces.clock import SystemClock
from app.kubernetes.admin import AdminUnavailable
from app.kubernetes.client import NOT_FOUND, KubernetesRefused
from app.kubernetes.role import OperatorRole
from waiting import until

SETTINGS = Operator.model_validate({
    "namespaces": [{"name": "team"}],
    "lease": {"namespace": "skybridge"},
    "admin": {"url": "http://127.0.0.1:9", "token": "token-of-the-operator"},
})  # fmt: skip


class Cluster:
    """Has no Lease yet, and lists no object."""

    async def get(self, _):
        raise KubernetesRefused(NOT_FOUND, "none")

    async def create(self, *_):
        pass

    async def list(self, *_):
        await asyncio.Event().wait()


class Admin:
    async def subscriptions(self):
        raise AdminUnavailable("The token is unknown.")


async def test_readiness_names_what_the_admin_api_answers_to_a_new_leader():
    """A wrong token would else look like a reading that takes long (issue 46)."""
    role = OperatorRole(SETTINGS, Cluster(), Admin(), SystemClock(), 65536)
    work = asyncio.create_task(role.run())
    await until(lambda: [*role.causes] == ["The token is unknown."], "the cause", within=2)
    work.cancel()
    await asyncio.wait([work])


async def test_a_process_that_cannot_become_the_leader_is_not_ready():
    """Nobody would lead, and an installation with a missing right would look complete (issue 46)."""

    class Forbidding(Cluster):
        async def create(self, *_):
            raise KubernetesRefused(403, "leases is forbidden")

    role = OperatorRole(SETTINGS, Forbidding(), Admin(), SystemClock(), 65536)
    work = asyncio.create_task(role.run())
    await until(lambda: "leases is forbidden" in "".join(role.causes), "the cause", within=2)
    work.cancel()
    await asyncio.wait([work])

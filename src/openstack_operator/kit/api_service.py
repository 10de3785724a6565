"""The steps that all services with an API share. A service's ``controller.py`` makes an ``ApiService`` or a
``RegisteredService``, puts its methods into the table of steps, and writes only the steps that are its own.

The methods read the common fields of ``types.ServiceTemplate`` and ``types.ServiceInstance``, and set the facts that
rows of configuration use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from openstack_operator.kit import cache, config, database, endpoints, identity, names, requests, workloads
from openstack_operator.runtime.controller import Scope


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApiService:
    """An API with its Services and its Deployment."""

    service: str
    """Value of the label app.kubernetes.io/name."""
    pod: Callable[[str, Any, config.Sources], workloads.Pod]
    """Builds the API's pods of an instance, a spec, and the sources of their configuration."""
    port: int
    port_name: str = "api"
    path: str = ""
    """What follows the port in the URLs that others are told."""
    own_name: Callable[[str], str] = names.api_service
    """Name of Service and Deployment, by the instance's name."""

    async def ensure_endpoints(self, scope: Scope[Any]) -> None:
        """The Services exist and the URLs are known."""
        internal, public = await endpoints.ensure(
            scope,
            self.pod(scope.name, scope.spec, config.NONE),
            self.port,
            scope.spec.public_endpoint,
            name=self.own_name(scope.name),
            port_name=self.port_name,
        )
        scope.facts["url.internal"] = scope.status["internalUrl"] = f"{internal}{self.path}"
        scope.facts["url.public"] = scope.status["publicUrl"] = f"{public}{self.path}"

    async def ensure_database(self, scope: Scope[Any]) -> None:
        """The database and its user stand in MariaDB."""
        supplied = scope.spec.credentials.database
        schema = names.schema(scope.name)
        await database.ensure(scope, self.service, scope.spec.database_ref.name, schema, supplied=supplied)

    async def observe_cache(self, scope: Scope[Any]) -> None:
        """The Memcached servers are known."""
        await cache.observe(scope, scope.spec.memcached_ref.name)

    async def ensure_deployment(self, scope: Scope[Any]) -> None:
        """Every API pod runs the current configuration and serves."""
        pod = self.pod(scope.name, scope.spec, scope.facts["sources"])
        await workloads.ensure_deployment(scope, pod, self.own_name(scope.name), scope.spec.replicas)

    async def drop_database(self, scope: Scope[Any]) -> None:
        """For finalizers."""
        await database.drop(scope, scope.spec.database_ref.name, names.schema(scope.name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegisteredService(ApiService):
    """An API that Keystone's catalogue lists, with a user of its own in Keystone."""

    type: str
    """Type in the catalogue."""
    description: str
    """What the catalogue calls it."""

    def endpoint(self, internal: str, public: str) -> identity.Endpoint:
        """The entry in the catalogue."""
        return identity.Endpoint(self.service, self.type, self.description, internal, public)

    async def ensure_identity(self, scope: Scope[Any]) -> None:
        """Keystone's URLs are known, and the service user's password exists."""
        await identity.ensure_user_secret(scope, self.service, scope.spec.credentials.service_user)
        await identity.observe(scope, scope.spec.keystone_ref.name)

    async def ensure_registration(self, scope: Scope[Any]) -> None:
        """The service user and the catalogue's entry stand in Keystone."""
        entry = self.endpoint(scope.facts["url.internal"], scope.facts["url.public"])
        await identity.register(scope, scope.spec.keystone_ref.name, (entry,), scope.spec.region)

    async def unregister(self, scope: Scope[Any]) -> None:
        """For finalizers: takes the user and the entry of its region out of Keystone."""
        services = ((self.service, self.type),)
        await identity.unregister(scope, scope.spec.keystone_ref.name, services, scope.spec.region)

    async def finalize(self, scope: Scope[Any]) -> None:
        """Takes the service out of Keystone and drops the database."""
        # A Keystone that is down holds up only itself: the database is asked for no longer.
        await requests.each((self.unregister(scope), self.drop_database(scope)))

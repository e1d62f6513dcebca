"""Transports by name; those with dependencies of their own are loaded by dotted path when they are used."""

from __future__ import annotations

from importlib import import_module

from durable.core.errors import ConfigurationError
from durable.transports.base import Transport

BUILT_IN = {
    "db": "durable.transports.db:DbTransport",
    "local": "durable.transports.inprocess:LocalTransport",
    "memory": "durable.transports.inprocess:MemoryTransport",
}


def make_transport(name: str) -> Transport:
    """Return a new transport.

    Raises:
        ConfigurationError: There is none of this name.
    """
    try:
        module, _, attribute = BUILT_IN[name].partition(":")
    except KeyError:
        raise ConfigurationError(f"unknown transport {name!r}; known are {', '.join(sorted(BUILT_IN))}") from None
    transport: Transport = getattr(import_module(module), attribute)()
    return transport

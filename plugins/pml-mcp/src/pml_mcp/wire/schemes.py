"""The schemes of addresses, each of which names a transport."""

from __future__ import annotations

PRIVATE = "stdio"
"""Of listeners that only whoever started the gateway can reach."""


def scheme_of(address: str) -> str:
    """The transport that an address names; ``https`` is read as ``http``."""
    scheme = address.partition(":")[0].lower()
    return "http" if scheme == "https" else scheme

"""Works as long as nobody calls it: what it needs is not there."""

from __future__ import annotations

from pml_hookspecs import MetaTool, Services, hookimpl


@hookimpl
def pml_meta_tools(services: Services) -> list[MetaTool]:
    """Offers nothing."""
    return []

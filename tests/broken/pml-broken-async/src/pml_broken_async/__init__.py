"""A hook that is a coroutine function: nobody would ever await it."""

from __future__ import annotations

from pml_hookspecs import MetaTool, Services, hookimpl


@hookimpl
async def pml_meta_tools(services: Services) -> list[MetaTool]:
    """Would offer nothing, later."""
    return []

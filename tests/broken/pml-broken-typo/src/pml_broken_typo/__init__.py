"""A hook with a letter wrong in its name: pluggy alone would never call it and never say so."""

from __future__ import annotations

from pml_hookspecs import Services, Wrapper, hookimpl


@hookimpl
def pml_wrap_executer(services: Services) -> list[Wrapper]:
    """Would wrap nothing."""
    return []

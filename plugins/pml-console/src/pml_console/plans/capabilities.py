"""Code that worked and was learned: how it has done, and whether it may run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit

SEE_OTHER = 303


async def capabilities(visit: Visit) -> Response:
    """All that the reader may know of, those that changed last first."""
    found = await visit.history.ask_installed("list_capabilities", {})
    return visit.page("capabilities.html", found=found, may_switch=visit.operates)


async def capability(visit: Visit) -> Response:
    """One, with its code."""
    asked = {"capability_id": visit.request.path_params["id"]}
    found: Mapping[str, Any] = await visit.history.call("list_capabilities", asked)
    return visit.page("capability.html", one=found["capabilities"][0], may_switch=visit.operates)


async def switch(visit: Visit) -> Response:
    """Switch one off or on."""
    id = visit.request.path_params["id"]
    arguments = {"capability_id": id, "enabled": visit.form.get("switch") == "on"}
    await visit.history.call("switch_capability", arguments)
    return RedirectResponse("/console/capabilities", SEE_OTHER)

"""What runs at certain times: when next, and how it went last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse

if TYPE_CHECKING:
    from starlette.responses import Response

    from pml_console.visit import Visit

SEE_OTHER = 303


async def schedules(visit: Visit) -> Response:
    """All that run for the reader; an operator sees all there are."""
    found = await visit.history.ask_installed("list_schedules", {})
    return visit.page("schedules.html", found=found, may_steer=visit.operates)


async def steer(visit: Visit) -> Response:
    """Pause one, resume it, or run it once now."""
    arguments = {"name": visit.request.path_params["name"], "action": visit.form.get("action", "")}
    await visit.history.call("steer_schedule", arguments)
    return RedirectResponse("/console/schedules", SEE_OTHER)

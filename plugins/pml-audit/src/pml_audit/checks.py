"""Lines of ``pml plugins doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pml_hookspecs import Check

from .heads import verified
from .settings import Settings, folder_of

if TYPE_CHECKING:
    from pml_hookspecs import Services


async def check(services: Services) -> Check:
    """Whether the audit is whole, as far as the files and the store tell."""
    folder = folder_of(services.settings or Settings())
    try:
        report = await verified(services, folder)
    except OSError as exc:
        return Check("audit", ok=False, detail=str(exc), remedy=f"See that {folder} can be read.")
    if report.broken is None:
        from .export.tail import kept

        elsewhere = "".join(f"; {target} has {one['n']}" for target, one in kept(folder).items())
        return Check("audit", ok=True, detail=f"{report.rows} rows in {folder}{elsewhere}")
    broken = report.broken
    detail = f"{broken.file}, line {broken.line}: {broken.problem}"
    return Check("audit", ok=False, detail=detail, remedy="Find out who changed it; see pml audit verify.")

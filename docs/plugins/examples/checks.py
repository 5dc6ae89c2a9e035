"""A line of `pml plugins doctor` for each program that servers need: is it there, and what to do if not."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from pml_hookspecs import Check, Services, hookimpl, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    programs: list[str] = setting(list, "Programs that have to be on the PATH.")


settings_type = Settings


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    for program in services.settings.programs:
        found = shutil.which(program)
        yield Check(f"program {program}", found is not None, found or "not on the PATH", f"Install {program}.")

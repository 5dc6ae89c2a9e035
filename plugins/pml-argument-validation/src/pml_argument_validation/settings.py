"""``[plugins.argument_validation]``."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which calls are refused before they go out."""

    refuse: tuple[str, ...] = setting(
        (),
        "Tools whose calls are refused when their arguments do not fit the input schema, by pattern: those of one "
        "server ('github:*'), all ('*'). Of all others their servers judge, and what the schema forbids is added to "
        "their errors. The gateway's own tools are always checked.",
        project="add",
    )

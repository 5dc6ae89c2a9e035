"""The table ``[plugins.plugin_0_1]``, for the hooks and for the drivers."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Bounded, listed and secret ones."""

    first: str = setting("write_file", "Name of the tool that is listed first.")
    hidden: list[str] = setting(list, "Ids of tools that nobody may have.")
    refused: str = setting("forbidden", "A call with this text as the value of an argument is refused.")
    most: int = setting(10, "Most tools listed.", ge=1, le=1000)
    token: str = setting("", "Of no use.", secret=True)

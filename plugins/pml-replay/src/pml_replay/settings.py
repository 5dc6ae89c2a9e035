"""``[plugins.replay]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How recordings are replayed."""

    after_last: Literal["repeat", "refuse"] = setting(
        "repeat", "What a call gets that is made more often than it was recorded: the last answer again, or an error."
    )

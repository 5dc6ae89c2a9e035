"""``[plugins.access]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Whose an agent is, and whom it may call."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    owner: str = setting("", "The person it belongs to; an agent without one is everybody's.")
    shared_with: tuple[str, ...] = setting((), "People who may call it and see what it ran, besides its owner.")
    permits: tuple[str, ...] = setting((), "Agents that it may call, and whose executions it may list.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Who is let in, and whose agents are."""

    required: bool = setting(
        False, "Let nobody in without a key, on stdio either; tokens in [plugins.http] count as keys.", project=(True,)
    )
    agents: dict[str, Agent] = setting(
        dict, "Owner, sharing and permits of agents, by name; what stands here, `pml access` does not change."
    )

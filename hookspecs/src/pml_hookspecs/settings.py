"""How a plugin declares its settings: a frozen dataclass whose fields are made by :func:`setting`.

.. code-block:: python

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Settings:
        limit: int = setting(10, "Most tools to show [tools].", ge=0)

The driver names the class as its ``settings_type``, a hook plugin's module has it as an attribute of that name. The
gateway validates with pydantic, and only when the configuration says something, so a plugin never pays that import.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal, TypeAlias, TypeVar

T = TypeVar("T")
ProjectRule: TypeAlias = Literal["", "set", "add", "lower", "never"] | tuple[Any, ...]
"""What a trusted project's file may do with a setting, which it never takes from the user: ``"set"``, give it a value
where the user's configuration says nothing, and tables further members; ``"add"``, make a list longer, as of
prohibitions; ``"lower"``, make a number smaller; ``"never"``, nothing; or give it one of these values, as the one that
is stricter. ``""`` is ``"never"`` for a guard's settings and ``"set"`` for all others."""


def setting(
    default: T | Callable[[], T],
    description: str,
    *,
    ge: float | None = None,
    le: float | None = None,
    secret: bool = False,
    project: ProjectRule = "",
) -> T:
    """One field of a settings class.

    Args:
        default: The value, or for a list or dictionary the type that makes an empty one (``list``, ``dict``).
        description: What it means, with the unit in brackets; shown by ``pml config explain``.
        ge: Least value allowed.
        le: Greatest value allowed.
        secret: Never shown: not by ``pml config``, not in logs, not in records.
        project: What a trusted project's file may do with it.
    """
    metadata = {"description": description, "ge": ge, "le": le, "secret": secret, "project": project}
    if callable(default):
        made: T = field(default_factory=default, repr=not secret, metadata=metadata)
        return made
    plain: T = field(default=default, repr=not secret, metadata=metadata)
    return plain

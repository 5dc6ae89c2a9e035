"""A connection, and whether the server plans a statement for its values or goes the way that it found for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import Connection, RawCursor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Cursor
    from psycopg.abc import Params


class ServerConnection(Connection[Any]):
    """A connection to the server.

    While it reads, most statements are planned each time: an hour and a year take different ways. Planning one with
    several parts takes longer than executing it, so what takes the same way whatever the values is planned once.
    """

    _keeps_plans = False

    def execute(
        self, query: Any, params: Params | None = None, *, prepare: bool | None = None, binary: bool = False
    ) -> Cursor[Any]:
        """As :meth:`psycopg.Connection.execute`; planned for these values."""
        if self._keeps_plans:
            self.plan_anew()
        return super().execute(query, params, prepare=prepare, binary=binary)

    def execute_as_planned(self, query: str, values: Sequence[Any]) -> Cursor[Any]:
        """The same, in binary form and with the plan of the first time; ``query`` has no ``%`` but those of values."""
        if not self._keeps_plans:
            super().execute("SET plan_cache_mode = force_generic_plan")
            self._keeps_plans = True
        return RawCursor(self).execute(*_numbered(query, values), prepare=True, binary=True)

    def plan_anew(self) -> None:
        """Plan each statement for its values from now on, as :meth:`execute` does."""
        super().execute("SET plan_cache_mode = force_custom_plan")
        self._keeps_plans = False


def _numbered(query: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
    """The same with each value once, however often it stands there: a time in every lane of a page, for one."""
    numbers: dict[tuple[type, Any], int] = {}
    first, *rest = query.split("%s")
    parts = [first]
    for value, text in zip(values, rest, strict=True):
        # By type as well: 1 and True are the same to Python.
        parts.append(f"${numbers.setdefault((type(value), value), len(numbers) + 1)}{text}")
    return "".join(parts), [value for _, value in numbers]

"""Tools of others, which nobody calls: what they cost is that they are there.

python crowd_server.py --catalog FILE --most 300
"""

from __future__ import annotations

import json
from pathlib import Path

from stdio_server import Server, ToolError, arguments


class Crowd:
    """The first tools of a catalog: one JSON object a line, with ``name``, ``description`` and ``input_schema``."""

    def __init__(self, catalog: Path, most: int) -> None:
        tools: dict[str, dict[str, object]] = {}
        for line in catalog.read_text("utf-8").splitlines():
            one = json.loads(line)
            schema = one.get("input_schema") or {"type": "object", "properties": {}}
            tool = {"name": one["name"], "description": one["description"], "inputSchema": schema}
            if len(tools) < most:
                tools.setdefault(one["name"], tool)
        self._tools = list(tools.values())

    def definitions(self):
        return self._tools

    def call(self, name, given):
        raise ToolError(f"{name} is only there to be listed")

    def reset(self, to): ...

    def state(self):
        return None


if __name__ == "__main__":
    given = arguments(catalog="file", most="number of tools")
    Server("others", Crowd(Path(given.catalog), int(given.most))).serve(given.control)

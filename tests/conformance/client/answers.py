"""How the client's human answers."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from mcp import types

BROWSER = Path(__file__).with_name("browser.py")
_browsing = set[Any]()


async def answer(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Accept: a form with its defaults, or else something of the type wanted; an address by opening it."""
    if isinstance(params, types.ElicitRequestURLParams):
        _browsing.add(await asyncio.create_subprocess_exec(sys.executable, str(BROWSER), params.url))
        return types.ElicitResult(action="accept")
    properties = params.requested_schema.get("properties", {})
    samples = {"boolean": True, "string": "x", "integer": 1, "number": 1}
    content = {name: of.get("default", samples.get(of.get("type"))) for name, of in properties.items()}
    return types.ElicitResult(action="accept", content=content)

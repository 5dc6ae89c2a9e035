"""Hook plugin ``search_tools``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import MetaTool, hookimpl

if TYPE_CHECKING:
    from pml_hookspecs import Services


@hookimpl
def pml_meta_tools(services: Services) -> Iterable[MetaTool]:
    """``search_tools`` and ``call_tool``."""
    from .call_tool import CallTool
    from .definitions import CALL_TOOL, SEARCH_TOOLS
    from .search_tools import SearchTools

    return [
        MetaTool(definition=SEARCH_TOOLS, call=SearchTools(services), whole_catalog=True),
        MetaTool(definition=CALL_TOOL, task=CallTool(services)),
    ]

"""The server that attempts may call: ``echo`` answers with its arguments, ``slow`` does so after 50 ms.

python -I -S isolation_server.py
"""

from __future__ import annotations

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - as quick as server.py
from server import Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Open(Server):
    """Takes whatever arguments."""

    def _call(self, key: Any, name: str, arguments: dict[str, Any]) -> bytes:
        if name == "slow":
            return super()._call(key, "sleep", {"ms": 50})
        return self._text(key, json.dumps(arguments))


if __name__ == "__main__":
    Open("open", 4).serve()

"""Tables at the top of a configuration: ``[tools."server:name"]`` and ``[toolsets.<name>]``."""

from __future__ import annotations

TOOLS, TOOLSETS = ("presentation", "tools"), ("presentation", "toolsets")

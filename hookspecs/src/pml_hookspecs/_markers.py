"""The two pluggy markers of this project."""

from __future__ import annotations

import pluggy

PROJECT = "pml"
"""pluggy's project name; hook functions start with ``pml_``."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Put on a function of a hook plugin: ``@hookimpl``. Plain functions only; the objects they return may be async."""

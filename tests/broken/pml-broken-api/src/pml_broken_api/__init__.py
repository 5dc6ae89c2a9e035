"""Written for hook specs that are not these. Nothing here may run."""

from __future__ import annotations

raise AssertionError("imported although it was written for other hook specs")

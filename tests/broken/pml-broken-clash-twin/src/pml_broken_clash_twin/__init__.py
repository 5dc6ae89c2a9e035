"""Claims a name that another distribution claims too. Nothing here may run."""

from __future__ import annotations

raise AssertionError("imported although its name is claimed twice")

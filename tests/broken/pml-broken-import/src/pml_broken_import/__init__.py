"""Needs a module that does not exist."""

from __future__ import annotations

import not_a_real_module_at_all  # noqa: F401

"""The ``deno`` executor: TypeScript and JavaScript in Deno, without permissions and in a kernel jail."""

from __future__ import annotations

from .executor import Deno, Settings

__all__ = ["Deno", "Settings"]

"""Types of tools for code that calls them, made of the tools' schemas: TypeScript declarations and Python stubs."""

from __future__ import annotations

from ._stubs import PythonStubs, TypeScriptStubs

__all__ = ["PythonStubs", "TypeScriptStubs"]

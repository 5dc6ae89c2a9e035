"""Types for code that is checked, not written: as wide as what a checker takes values for."""

from __future__ import annotations

from pml_kit.schema.type_tree import Array, Const, Object, Type, Union, union


def loosened(type_: Type) -> Type:
    """``type_`` as wide as what a checker takes a variable for that was made of a value which fits.

    An object put together over several lines is some dictionary to it, and the text in one some text.
    """
    match type_:
        case Object():
            return Object(open=True)
        case Array(items=items):
            inner = loosened(items)
            return Array(inner if inner in ("string", "integer", "boolean") else "any")
        case Const(value=str()):
            return "string"
        case Union(members=members):
            return union([loosened(member) for member in members])
    return type_

"""``reference/hooks.md`` and ``plugins/hooks.md``: every hook, and an example of each."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from made import DOCS, prose

from pml_hookspecs.hooks import Hooks

EXAMPLES = DOCS / "plugins" / "examples"
REFERENCE = """\
# Hooks

A hook plugin is a module with functions of these names, marked `@hookimpl` and registered as an entry point of the
group `pml.plugins`. They are plain functions; what they return may be asynchronous. A function may leave out arguments
that it does not need. [Each hook by example](../plugins/hooks.md).

What else plugins see of the gateway is documented where it is declared: `hookspecs/src/pml_hookspecs`.
"""
BY_EXAMPLE = """\
# Every hook, by example

Each of these is a whole plugin in one file: a test loads it into a gateway and holds what is said of it. To try one,
put it into your folder and name it in `pml.toml`:

```toml
[gateway]
local = ["./policy.py"]
```

Only `pml_commands` needs [a distribution](first-plugin.md), because it is asked before any configuration is read. What
each hook promises and is promised: [reference](../reference/hooks.md).
"""


def every_hook() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Name and function of each, in the order in which they are declared."""
    for name, function in vars(Hooks).items():
        if name.startswith("pml_"):
            yield name, function


def hooks() -> str:
    """The reference."""
    parts = [REFERENCE]
    for name, function in every_hook():
        parts += [f"## `{name}` {{ #{name} }}\n", "```python", _signature(name, function), "```\n"]
        parts += [f"{prose(function.__doc__)}\n", f"[Example](../plugins/hooks.md#{name})\n"]
    return "\n".join(parts)


def _signature(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    own = [f"{one.name}: {one.annotation}" for one in signature.parameters.values() if one.name != "self"]
    return f"@hookimpl\ndef {name}({', '.join(own)}) -> {signature.return_annotation}: ..."


def examples() -> str:
    """The page of examples."""
    parts = [BY_EXAMPLE]
    for name, _ in every_hook():
        about, source = _example(name)
        parts += [f"## `{name}` {{ #{name} }}\n", f"{about}\n", f'```python title="{name[4:]}.py"', source, "```\n"]
        parts.append(f"[Reference](../reference/hooks.md#{name})\n")
        if name == "pml_offers":
            parts += _offers()
    return "\n".join(parts)


def _offers() -> Iterator[str]:
    """An example for each of PML's own keys that plugins offer by."""
    for path in sorted(EXAMPLES.glob("offers/*.py")):
        about, source = _read(path)
        yield f"### `{path.stem}` {{ #{path.stem} }}\n"
        yield f"{about}\n"
        yield f'```python title="offers/{path.name}"\n{source}\n```\n'


def _example(hook: str) -> tuple[str, str]:
    """What an example says of itself, and its source."""
    return _read(EXAMPLES / f"{hook.removeprefix('pml_')}.py")


def _read(path: Path) -> tuple[str, str]:
    """The docstring of a module, and the rest of it without the remarks for linters."""
    text = path.read_text(encoding="utf-8")
    about = ast.get_docstring(ast.parse(text)) or ""
    end = ast.parse(text).body[0].end_lineno or 0
    lines = [line.partition("  # noqa")[0] for line in text.splitlines()[end:]]
    return prose(about), "\n".join(lines).strip()

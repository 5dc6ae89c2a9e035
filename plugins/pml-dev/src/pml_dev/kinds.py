"""The kinds of plugin that can be begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of plugin that can be begun."""

    group: str
    suffix: str
    """Of the class that its entry point names; ``""`` when that is the module."""
    about: str
    use: str
    """How to see it at work: a command, with ``{name}`` in it."""
    libraries: tuple[str, ...] = ()
    """Of PML, besides the contract."""

    @property
    def folder(self) -> str:
        """Where its templates are."""
        return self.group.removeprefix("pml.") if self.suffix else "hooks"


KINDS: Mapping[str, Kind] = {
    "exposure-mode": Kind(
        "pml.exposure_mode",
        "Mode",
        "exposure mode: lists the tools whose names fit patterns",
        "pml serve --mode {name}",
    ),
    "executor": Kind(
        "pml.executor",
        "Executor",
        "executor: runs scripts of one tool call on each line",
        "pml plugins list",
        ("pml-kit",),
    ),
    "transport": Kind(
        "pml.transport",
        "Transport",
        "transport: reaches servers that listen on a TCP port",
        "pml serve --set servers.there.address={name}:127.0.0.1:7000",
        ("pml-kit",),
    ),
    "tracer": Kind(
        "pml.tracer",
        "Tracer",
        "tracer: writes each finished span as a line of JSON",
        'pml serve --set \'gateway.tracers=["log", "{name}"]\' --set plugins.{name}.path=spans.jsonl',
    ),
    "store": Kind(
        "pml.store",
        "Store",
        "store: keeps everything in one file of JSON lines",
        "pml serve --set gateway.store={name}",
        ("pml-stores",),
    ),
    "hooks": Kind("pml.plugins", "", "plugin: refuses calls by the value of an argument", "pml plugins chain"),
}

"""What tests of the ``pml`` command share."""

from __future__ import annotations

import json
from typing import Any

from pml_core.cli import main

HOOKS = "from pml_hookspecs import hookimpl\n"
SETTINGS = """
from dataclasses import dataclass
from pml_hookspecs import setting
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    limit: int = setting(10, "Most tools [tools].", ge=1)
    pin: str = setting("", "What opens the door.", secret=True)
"""
STORE = (
    SETTINGS
    + """
from pml_core.nulls import MemoryStore
class Store(MemoryStore):
    settings_type = Settings
"""
)
WRAPPER = (
    HOOKS
    + """
from pml_hookspecs import Check, Phase
class Guard:
    phase = Phase.VALIDATE
    async def __call__(self, task, run, call_next): return await call_next(task, run)
@hookimpl
def pml_wrap_executor(services): return [Guard()]
@hookimpl
def pml_checks(services): return [Check("the door", False, "is open", "Close it.")]
@hookimpl
def pml_commands(subcommands):
    parser = subcommands.add_parser("guard", help="stands guard")
    parser.set_defaults(run=lambda arguments: 7)
"""
)


def installed(installation: Any, place: Any) -> None:
    """A store, a hook plugin, and the drivers that the defaults name."""
    installation.add("acme-store", {"pml.store": {"sqlite": "acme_store:Store"}}, modules={"acme_store": STORE})
    installation.add("acme-guard", {"pml.plugins": {"guard": "acme_guard"}}, modules={"acme_guard": WRAPPER})
    driver = (
        "from pml_hookspecs import ExposureMode, Selection, Tracer\n"
        "class D(Tracer, ExposureMode):\n"
        "    def __init__(self, settings, services): pass\n"
        "    async def select(self, catalog, session): return Selection(())\n"
    )
    points = {
        "pml.tracer": {"log": "acme_rest:D", "store": "acme_rest:D"},
        "pml.exposure_mode": {"meta_only": "acme_rest:D"},
    }
    installation.add("acme-rest", points, modules={"acme_rest": driver})


def status(*words: str) -> int:
    """How ``pml`` ends."""
    try:
        return main(words)
    except SystemExit as exc:  # argparse's own way out
        return int(exc.code or 0)


def printed(capsys: Any, *words: str) -> Any:
    """What ``pml`` prints as JSON."""
    assert main(words) == 0
    return json.loads(capsys.readouterr().out)

"""Mistakes of plugins' authors: the gateway starts without the plugin or says one line, and the doctor names each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from textwrap import dedent

import pytest

from pml_core.cli import main
from pml_core.gateway import Gateway
from pml_kit.errors import OperatorError
from pml_kit.system.logs import Logs
from pml_settings.config import load

pytestmark = pytest.mark.anyio
HOOKS = """
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pml_hookspecs import *
from pml_hookspecs import hookimpl
async def answer(arguments, run): return {}
SCHEMA = {"type": "object"}
class Wraps:
    phase = Phase.VALIDATE
    async def __call__(self, task, run, call_next): return await call_next(task, run)
"""
DRIVER = """
from pml_hookspecs import *
"""


@dataclass(frozen=True)
class Mistake:
    """One plugin ``wrong`` with one mistake in it."""

    id: str
    source: str
    said: str
    """What the doctor says of it, among other things."""
    kind: str = "hooks"
    needs: str = "pml-hookspecs>=0.2,<0.3"
    target: str = ""
    """What the entry point names in the module; ``""`` for the module, or a driver's class ``D``."""

    @property
    def code(self) -> str:
        """The module."""
        return (HOOKS if self.kind == "hooks" else DRIVER) + dedent(self.source)


def hook(id: str, name: str, gives: str, said: str, before: str = "") -> Mistake:
    """A hook plugin whose hook returns ``gives``."""
    return Mistake(id, f"{dedent(before)}\n@hookimpl\ndef {name}(services): return {gives}\n", said)


def driver(kind: str, id: str, source: str, said: str) -> Mistake:
    """A driver."""
    return Mistake(id, source, said, kind)


WRAP, TOOLS, KEEP = "pml_wrap_executor", "pml_meta_tools", "pml_filter_tools"
NO_INIT = "class D:\n    def __init__(self, settings, services): pass\n"
MISTAKES = (
    # What a distribution is
    Mistake("another_contract", "raise SystemExit", "needs pml-hookspecs>=99", needs="pml-hookspecs>=99"),
    Mistake("no_contract", "raise SystemExit", "does not declare which pml-hookspecs", needs=""),
    Mistake("import_fails", "import no_such_module", "No module named 'no_such_module'"),
    Mistake("import_exits", "raise SystemExit('no licence')", "SystemExit: no licence"),
    Mistake("import_is_slow", "import time; time.sleep(1.5)\n@hookimpl\ndef pml_checks(services): return []", "import"),
    Mistake("wrong_target", "x = 1", "has no attribute 'Plugin'", target="Plugin"),
    # What a hook plugin is
    Mistake("unmarked", f"def {WRAP}(services): return [Wraps()]", f"{WRAP} is not marked"),
    Mistake("no_hooks", "def wrap(services): return []", "has no hooks"),
    Mistake(
        "unknown_hook", "@hookimpl\ndef pml_wrap_executer(services): return []", "unknown hook 'pml_wrap_executer'"
    ),
    Mistake("async_hook", f"@hookimpl\nasync def {WRAP}(services): return []", "is async; hooks are plain functions"),
    Mistake("hook_arguments", f"@hookimpl\ndef {WRAP}(service): return []", WRAP),
    Mistake(
        "class_for_plugin",
        f"class Plugin:\n    @hookimpl\n    def {WRAP}(self, services): return []",
        "'Plugin' is a class",
        target="Plugin",
    ),
    Mistake("hook_raises", f"@hookimpl\ndef {WRAP}(services): raise ValueError('no key')", "ValueError: no key"),
    Mistake("hook_exits", f"@hookimpl\ndef {WRAP}(services): raise SystemExit(3)", f"{WRAP} ends the process"),
    # Settings
    Mistake("settings_dict", f"settings_type = dict\n@hookimpl\ndef {WRAP}(services): return []", "is no dataclass"),
    Mistake(
        "settings_instance",
        f"@dataclass\nclass S:\n    n: int = 1\nsettings_type = S()\n@hookimpl\ndef {WRAP}(services): return []",
        "is no dataclass",
    ),
    # What hooks return
    hook("not_in_a_list", WRAP, "Wraps()", "return a list of each Wrapper"),
    hook("none_returned", WRAP, "None", "returns None"),
    hook("none_in_a_list", WRAP, "[None]", "'NoneType', which is no Wrapper"),
    hook("class_for_wrapper", WRAP, "[Wraps]", "the class itself"),
    hook("no_phase", WRAP, "[W()]", "has no 'phase'", "class W:\n    async def __call__(self, t, r, n): ..."),
    hook("phase_of_text", WRAP, "[W()]", "its phase 'validate' is none", "class W(Wraps): phase = 'validate'"),
    hook("phase_between", WRAP, "[W()]", "its phase 450 is none", "class W(Wraps): phase = 450"),
    hook(
        "wrapper_takes_two",
        WRAP,
        "[W()]",
        "it has to take (task, run, call_next)",
        "class W:\n    phase = Phase.AUDIT\n    async def __call__(self, task, call_next): ...",
    ),
    hook(
        "wrapper_yields",
        WRAP,
        "[W()]",
        "a generator",
        "class W:\n    phase = Phase.AUDIT\n    async def __call__(self, t, r, n): yield 1",
    ),
    hook(
        "wrapper_blocks",
        WRAP,
        "[W()]",
        "keeps the event loop",
        """
        import time
        class W(Wraps):
            async def __call__(self, task, run, call_next):
                time.sleep(0.2)
                return await call_next(task, run)
        """,
    ),
    hook("async_filter", KEEP, "[keep]", "is no plain function", "async def keep(entry, session): return True"),
    hook("filter_takes_one", KEEP, "[lambda entry: True]", "it has to take (entry, session)"),
    hook("dict_for_tool", TOOLS, "[{'name': 'hello'}]", "make it a MetaTool"),
    hook("tool_without_name", TOOLS, "[MetaTool(definition={}, call=answer)]", "has no 'name'"),
    hook("tool_without_schema", TOOLS, "[MetaTool(definition={'name': 'x'}, call=answer)]", "no 'inputSchema'"),
    hook("tool_without_call", TOOLS, "[MetaTool(definition={'name': 'x', 'inputSchema': SCHEMA})]", "has neither of"),
    hook(
        "sync_tool",
        TOOLS,
        "[MetaTool(definition={'name': 'x', 'inputSchema': SCHEMA}, call=lambda a, r: {})]",
        "'call' is no coroutine function",
    ),
    hook("sync_lifespan", "pml_lifespan", "[open('/dev/null')]", "a context manager that is not async"),
    hook(
        "uncalled_lifespan",
        "pml_lifespan",
        "[life]",
        "call it: life(...)",
        "@asynccontextmanager\nasync def life(): yield",
    ),
    hook("check_of_text", "pml_checks", "['all is well']", "'str', which is no Check"),
    # Drivers
    driver("exposure_mode", "mode_without_select", NO_INIT, "has no 'select'; write: async def select"),
    driver(
        "exposure_mode",
        "sync_select",
        NO_INIT + "    def select(self, catalog, session): return Selection(())",
        "'select' is no coroutine function",
    ),
    driver("executor", "without_handles", NO_INIT + "    async def execute(self, task, run): ...", "'handles'"),
    driver(
        "tracer",
        "async_tracer",
        NO_INIT.replace("D:", "D(Tracer):") + "    async def started(self, span): ...",
        "but async",
    ),
    driver(
        "store",
        "store_blocks",
        """
        import time
        from pml_core.plugins.nulls import MemoryStore
        class D(MemoryStore):
            async def __aenter__(self):
                time.sleep(5.8)
                return await super().__aenter__()
        """,
        "keeps the event loop",
    ),
)
GUARDED = [one for one in MISTAKES if one.kind == "hooks"]
NO_FAULTS = ("import_is_slow", "wrapper_blocks", "store_blocks", "check_of_text")
"""What a gateway runs with."""


def install(installation, mistake: Mistake, *, guard: bool = False) -> list[str]:
    """A distribution that makes the mistake; settings that have a gateway use it."""
    name = f"planted_{mistake.id}"
    group = "pml.plugins" if mistake.kind == "hooks" else f"pml.{mistake.kind}"
    target = mistake.target or ("" if mistake.kind == "hooks" else "D")
    points = {group: {"wrong": f"{name}:{target}" if target else name}}
    installation.add(
        name.replace("_", "-"),
        {**points, "pml.guards": points[group]} if guard else points,
        requires=[mistake.needs] if mistake.needs else [],
        modules={name: mistake.code},
    )
    chosen = {"exposure_mode": "tools_exposure=wrong", "store": "store=wrong", "tracer": 'tracers=["wrong"]'}
    return [f"gateway.{chosen[mistake.kind]}"] if mistake.kind in chosen else []


def test_there_are_41() -> None:
    assert len({one.id for one in MISTAKES}) == 41


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.id)
def test_the_doctor_names_it(place, installation, capsys, mistake):
    chosen = [word for setting in install(installation, mistake) for word in ("--set", setting)]
    assert main(["plugins", "doctor", "--json", *chosen]) == 1
    said = capsys.readouterr()
    wrong = [line for line in json.loads(said.out) if not line["ok"]]
    about = [f"{line['subject']}: {line['detail']}" for line in wrong]
    assert any("wrong" in line and mistake.said in line for line in about), wrong
    assert all(line["remedy"] or "wrong" not in line["subject"] for line in wrong), wrong
    assert not any("\n" in line["detail"] for line in wrong), wrong
    assert "Traceback" not in said.err


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.id)
async def test_the_gateway_goes_without_or_refuses_in_one_line(place, installation, capsys, mistake):
    chosen = install(installation, mistake)
    try:
        async with Gateway(load(overrides=chosen), Logs("warning")) as gateway:
            failed = {**gateway.supervisor.failed}
    except OperatorError as exc:
        failed = {"wrong": exc.message}
    assert not any("\n" in problem for problem in failed.values())
    assert (mistake.id in NO_FAULTS) == ("wrong" not in failed), failed
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("mistake", GUARDED, ids=lambda one: one.id)
async def test_a_guard_with_it_lets_nothing_through(place, installation, capsys, mistake):
    install(installation, mistake, guard=True)
    try:
        async with Gateway(load(), Logs("error")) as gateway:
            closed = [*gateway.supervisor.closed.values()]
    except OperatorError as exc:
        closed = [exc.message]
    assert bool(closed) == (mistake.id not in NO_FAULTS)
    assert not any("\n" in problem for problem in closed)
    assert "Traceback" not in capsys.readouterr().err

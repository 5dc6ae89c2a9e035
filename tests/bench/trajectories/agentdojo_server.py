"""One of AgentDojo's suites as a server, run by a Python that has ``agentdojo``.

python agentdojo_server.py --suite NAME [--control SOCKET]
python agentdojo_server.py --dump all         prints servers, tools that only read, and user tasks
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from importlib.metadata import version
from types import ModuleType

from stdio_server import Server, ToolError, arguments

PIPELINE = {
    "": (),
    ".base_pipeline_element": ("BasePipelineElement",),
    ".errors": ("AbortAgentError",),
    ".ground_truth_pipeline": ("GroundTruthPipeline",),
}
"""What the suites import of the part that talks to models, which needs the packages of all their vendors."""
for end, names in PIPELINE.items():
    module = sys.modules[f"agentdojo.agent_pipeline{end}"] = ModuleType(f"agentdojo.agent_pipeline{end}")
    module.__path__ = []
    for name in names:
        setattr(module, name, type(name, (Exception,), {}))

from agentdojo.default_suites.v1.tools import cloud_drive_client, email_client  # noqa: E402
from agentdojo.functions_runtime import FunctionsRuntime  # noqa: E402
from agentdojo.task_suite.load_suites import get_suites  # noqa: E402
from pydantic import BaseModel  # noqa: E402

VERSION = "v1.2.2"
"""Of the benchmark, the newest."""
READING = ("get_", "search_", "list_", "read_", "check_")
WRITING = ("get_unread_emails", "get_webpage")
"""Whose names say that they read, though they note that they did."""


class Clock(dt.datetime):
    """Stands still, so that end states can be compared."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 5, 15, 12, 0, tzinfo=tz)


def reads(name: str) -> bool:
    """Whether a tool changes nothing."""
    return name.startswith(READING) and name not in WRITING


class World:
    """The environment of a suite."""

    def __init__(self, name: str) -> None:
        self._suite = get_suites(VERSION)[name]
        self._runtime = FunctionsRuntime(self._suite.tools)
        self._whole = self._suite.load_and_inject_default_environment({})
        self.reset(None)

    def definitions(self):
        made = []
        for tool in self._suite.tools:
            one = {
                "name": tool.name,
                "description": tool.description,
                "inputSchema": tool.parameters.model_json_schema(),
            }
            made.append(one | ({"annotations": {"readOnlyHint": True}} if reads(tool.name) else {}))
        return made

    def call(self, name, given):
        found, error = self._runtime.run_function(self._environment, name, given)
        if error:
            raise ToolError(error)
        return found if isinstance(found, str) else json.dumps(plain(found), ensure_ascii=False, default=str)

    def reset(self, to):
        self._environment = self._whole.model_copy(deep=True)
        if to is not None:
            self._environment = self._suite.user_tasks[to].init_environment(self._environment)

    def state(self):
        return self._environment.model_dump(mode="json")


def plain(value):
    """What a function gives, as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {str(name): plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def dump():
    """Every user task of every suite."""
    tasks, reading = [], set()
    for name, suite in get_suites(VERSION).items():
        reading |= {tool.name for tool in suite.tools if reads(tool.name)}
        for key, task in suite.user_tasks.items():
            environment = task.init_environment(suite.load_and_inject_default_environment({}))
            gold = [[name, one.function, plain(dict(one.args))] for one in task.ground_truth(environment)]
            told = [task.GROUND_TRUTH_OUTPUT] if task.GROUND_TRUTH_OUTPUT else []
            turns = [{"words": task.PROMPT, "calls": gold, "told": told}]
            tasks.append({"id": f"{name} {key}", "servers": [name], "turns": turns, "start": {name: key}})
    return {
        "version": version("agentdojo"),
        "servers": list(get_suites(VERSION)),
        "reads": sorted(reading),
        "tasks": tasks,
    }


if __name__ == "__main__":
    given = arguments(suite="which suite", dump="all")
    for client in (cloud_drive_client, email_client):
        client.datetime = ModuleType("datetime")
        vars(client.datetime).update({**vars(dt), "datetime": Clock})
    if given.dump:
        json.dump(dump(), sys.stdout, default=str)
    else:
        Server(given.suite, World(given.suite)).serve(given.control)

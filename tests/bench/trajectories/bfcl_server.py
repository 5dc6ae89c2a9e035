"""One of the classes of BFCL's multi-turn tasks as a server, run by a Python that has ``bfcl-eval``.

python bfcl_server.py --server NAME [--control SOCKET]
python bfcl_server.py --dump all              prints servers and tasks
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import json
import sys
from importlib.metadata import version
from pathlib import Path

import bfcl_eval
from stdio_server import Server, ToolError, arguments

DATA = Path(bfcl_eval.__file__).parent / "data"
SOURCE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
CLASSES = {
    "files": ("GorillaFileSystem", "gorilla_file_system"),
    "math": ("MathAPI", "math_api"),
    "messages": ("MessageAPI", "message_api"),
    "posts": ("TwitterAPI", "posting_api"),
    "tickets": ("TicketAPI", "ticket_api"),
    "trading": ("TradingBot", "trading_bot"),
    "travel": ("TravelAPI", "travel_booking"),
    "vehicle": ("VehicleControlAPI", "vehicle_control"),
}
"""Class and module of each server."""
SERVERS = {name: server for server, (name, _) in CLASSES.items()}
SETS = {"base": False, "long_context": True}
"""Which of the four sets, and whether their worlds are filled with more; the other two have the same gold actions."""
TYPES = {"dict": "object", "float": "number", "tuple": "array"}
"""Names of types that JSON Schema has not."""


class World:
    """An object of the class."""

    def __init__(self, server: str) -> None:
        name, module = CLASSES[server]
        self._made_by = getattr(importlib.import_module(f"{SOURCE}.{module}"), name)
        lines = (DATA / "multi_turn_func_doc" / f"{module}.json").read_text("utf-8").splitlines()
        self._definitions = [self._definition(json.loads(line)) for line in lines]
        self._names = {tool["name"] for tool in self._definitions}
        self.reset(None)

    def _definition(self, one):
        return {"name": one["name"], "description": one["description"], "inputSchema": schema(one["parameters"])}

    def definitions(self):
        return self._definitions

    def call(self, name, given):
        if name not in self._names:
            raise ToolError(f"no tool {name}")
        try:
            found = getattr(self._one, name)(**given)
        except Exception as exc:
            raise ToolError(f"during execution: {exc}") from exc
        if not isinstance(found, dict):
            return str(found)
        try:
            return json.dumps(found)
        except TypeError:
            return str(found)

    def reset(self, to):
        self._one = self._made_by()
        if hasattr(self._one, "_load_scenario"):
            start = to or {"scenario": {}, "long": False}
            self._one._load_scenario(copy.deepcopy(start["scenario"]), long_context=start["long"])

    def state(self):
        at = getattr(self._one, "_current_dir", None)
        return [plain(self._one), None if at is None else at.name]


def schema(one):
    """BFCL's description of a type, as JSON Schema."""
    if isinstance(one, dict):
        made = {name: schema(member) for name, member in one.items()}
        if isinstance(made.get("type"), str):
            made["type"] = TYPES.get(made["type"], made["type"])
        return made
    return [schema(item) for item in one] if isinstance(one, list) else one


def plain(value):
    """Public attributes of an object as JSON, as BFCL's own check compares them, and of what they hold."""
    if isinstance(value, dict):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "__dict__"):
        return {name: plain(v) for name, v in vars(value).items() if not name.startswith("_") and name != "parent"}
    return str(value)


def dump():
    """Every task of the sets."""
    methods = {}
    for server, (name, module) in CLASSES.items():
        of = getattr(importlib.import_module(f"{SOURCE}.{module}"), name)
        methods[server] = dict(inspect.getmembers(of, inspect.isfunction))
    tasks = {}
    for name, long in SETS.items():
        asked, answers = (
            lines(f"BFCL_v4_multi_turn_{name}.json"),
            lines(f"possible_answer/BFCL_v4_multi_turn_{name}.json"),
        )
        gold = {one["id"]: one["ground_truth"] for one in answers}
        tasks[name] = [task(one, gold[one["id"]], methods, long=long) for one in asked]
    return {"version": version("bfcl-eval"), "servers": list(CLASSES), "tasks": tasks}


def lines(name):
    """The objects of a file."""
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def task(one, gold, methods, *, long):
    """A task, with a turn for each of its user's."""
    servers = [SERVERS[name] for name in one["involved_classes"]]
    turns = []
    for said, calls in zip(one["question"], gold, strict=True):
        words = "\n".join(message["content"] for message in said)
        turns.append({"words": words, "calls": [call(text, servers, methods) for text in calls]})
    starts = {SERVERS[name]: scenario for name, scenario in one["initial_config"].items()}
    start = {name: {"scenario": starts.get(name, {}), "long": long} for name in servers}
    return {"id": one["id"], "servers": servers, "turns": turns, "start": start}


def call(text, servers, methods):
    """A gold action, which BFCL writes as Python."""
    node = ast.parse(text.strip(), mode="eval").body
    name = node.func.id
    server = next(server for server in servers if name in methods[server])
    names = list(inspect.signature(methods[server][name]).parameters)[1:]
    given = {names[place]: ast.literal_eval(value) for place, value in enumerate(node.args)}
    return [server, name, given | {word.arg: ast.literal_eval(word.value) for word in node.keywords}]


if __name__ == "__main__":
    given = arguments(server="which class", dump="all")
    if given.dump:
        json.dump(dump(), sys.stdout)
    else:
        Server(given.server, World(given.server)).serve(given.control)

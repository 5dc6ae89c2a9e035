"""One of AgentDojo's suites behind a pipe, run by a Python that has ``agentdojo``: a line of JSON in, one out.

{"op": "about"}, {"op": "begin", "user": ID, "inject": TEXT or null}, {"op": "call", "tool": NAME, "arguments": {...}}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "trajectories"))

from agentdojo_server import VERSION, World, get_suites, plain, reads


class Suite(World):
    """A suite whose environment may have text of an attacker in every place that AgentDojo knows."""

    def begin(self, user: str, inject: str | None) -> None:
        suite = self._suite
        texts = {} if inject is None else dict.fromkeys(suite.get_injection_vector_defaults(), inject)
        environment = suite.load_and_inject_default_environment(texts)
        self._environment = suite.user_tasks[user].init_environment(environment)

    def about(self):
        tools = {}
        for tool, definition in zip(self._suite.tools, self.definitions(), strict=True):
            definition.pop("annotations", None)
            server = tool.run.__module__.rpartition(".")[2].removesuffix("_client")
            tools[tool.name] = {"server": server, "reads": reads(tool.name), "definition": definition}
        return {
            "tools": tools,
            "users": {key: self._told(task, task.PROMPT) for key, task in self._suite.user_tasks.items()},
            "injections": {key: self._told(task, task.GOAL) for key, task in self._suite.injection_tasks.items()},
        }

    def _told(self, task, words):
        environment = self._suite.load_and_inject_default_environment({})
        if hasattr(task, "init_environment"):
            environment = task.init_environment(environment)
        calls = [[one.function, plain(dict(one.args))] for one in task.ground_truth(environment)]
        return {"words": words, "calls": calls}

    def answer(self, asked):
        if asked["op"] == "about":
            return self.about()
        if asked["op"] == "begin":
            return self.begin(asked["user"], asked["inject"])
        try:
            return {"text": self.call(asked["tool"], asked["arguments"]), "failed": False}
        except Exception as exc:
            return {"text": str(exc), "failed": True}


if __name__ == "__main__":
    if sys.argv[1] == "suites":
        print(json.dumps({"version": VERSION, "suites": list(get_suites(VERSION))}))
    else:
        world, out = Suite(sys.argv[1]), sys.stdout
        sys.stdout = sys.stderr
        for line in sys.stdin:
            print(json.dumps(world.answer(json.loads(line)), default=str), file=out, flush=True)

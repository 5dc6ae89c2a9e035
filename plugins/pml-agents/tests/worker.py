"""An agent's command line that does as it is told: ``worker.py MODE [ARGUMENT ...]``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOREVER_S = 600
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 20}
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Found 3 papers.",
    "total_cost_usd": 0.0125,
    "usage": USAGE,
    "modelUsage": {"large-1": {"contextWindow": 200000, "costUSD": 0.0125}},
}
EVENTS = [
    {"type": "system", "subtype": "init", "model": "large-1"},
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Read", "input": {}}], "usage": USAGE}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "content": "secret-of-the-env"}]}},
    {
        "type": "assistant",
        "parent_tool_use_id": "t1",
        "message": {"content": [{"type": "text", "text": "inner"}], "usage": {"input_tokens": 1}},
    },
    RESULT,
]


def say(text, to=sys.stdout) -> None:
    to.write(f"{text}\n")
    to.flush()


def echo() -> None:
    say(f"you said: {sys.stdin.read()}")


def args() -> None:
    say(json.dumps(sys.argv[2:]))


def as_json() -> None:
    say("a warning that is no JSON")
    say(json.dumps(RESULT))


def stream() -> None:
    for event in EVENTS:
        say(json.dumps(event))


def codex() -> None:
    say("starting")
    for event in (
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": {"input_tokens": 7, "output_tokens": 3}},
    ):
        say(json.dumps(event))


def bad() -> None:
    say("{not json")


def error() -> None:
    say(json.dumps({"is_error": True, "result": "the limit of turns was reached", "total_cost_usd": 0.5}))
    sys.exit(1)


def fail() -> None:
    say("half an answer")
    say("no such file: hunter2hunter2", to=sys.stderr)
    sys.exit(3)


def flood() -> None:
    block = b"x" * 65536
    while True:
        os.write(1, block)


def flood_stderr() -> None:
    block = b"x" * 65536
    while True:
        os.write(2, block)


def big() -> None:
    sys.stdout.write("begin" + "x" * int(sys.argv[2]) + "end")


def deaf() -> None:
    say("I do not listen.")


def deaf_forever() -> None:
    note({"worker": os.getpid()})
    time.sleep(FOREVER_S)


def env() -> None:
    say(json.dumps({"response": {**os.environ, "cwd": str(Path.cwd())}}))


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def note(pids) -> None:
    place = Path(sys.argv[2])
    place.with_suffix(".new").write_text(json.dumps(pids))
    place.with_suffix(".new").rename(place)


def sleeper(**options) -> int:
    ready, ready_write = os.pipe()
    os.set_inheritable(ready_write, True)
    command = [sys.executable, __file__, "sleeper", str(ready_write)]
    child = subprocess.Popen(command, pass_fds=[ready_write], **options)
    os.close(ready_write)
    os.read(ready, 1)
    return child.pid


def sleep() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(int(sys.argv[2]), b"!")
    time.sleep(FOREVER_S)


def stubborn() -> None:
    """Ignores SIGTERM, and so do its children, one of which has left the group."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note({"worker": os.getpid(), "child": sleeper(), "daemon": sleeper(start_new_session=True)})
    time.sleep(FOREVER_S)


def leaves() -> None:
    """Ends, and leaves children that hold its output open."""
    note({"child": sleeper(), "daemon": sleeper(start_new_session=True)})
    say("gone")


def gate() -> None:
    """Says that it has begun, and ends when it may: ``gate FOLDER MESSAGE``."""
    folder, name = Path(sys.argv[2]), sys.argv[3]
    (folder / f"{name}.begun").write_text(str(time.monotonic_ns()))
    while not (folder / f"{name}.go").exists() and not (folder / "all.go").exists():
        time.sleep(0.005)
    (folder / f"{name}.ended").write_text(str(time.monotonic_ns()))
    say(f"{name} is done")


MODES = {
    "echo": echo,
    "args": args,
    "json": as_json,
    "stream": stream,
    "codex": codex,
    "bad": bad,
    "error": error,
    "fail": fail,
    "flood": flood,
    "flood_stderr": flood_stderr,
    "big": big,
    "deaf": deaf,
    "deaf_forever": deaf_forever,
    "env": env,
    "kill": kill,
    "stubborn": stubborn,
    "leaves": leaves,
    "gate": gate,
    "sleeper": sleep,
}

if __name__ == "__main__":
    MODES[sys.argv[1]]()

"""Attempts from inside a sandbox, in Python: on its limits, on its bridge to the tools, and on Python itself."""

from __future__ import annotations

from typing import Any

from .isolation import Attempt


def _try(group: str, name: str, code: str, **more: Any) -> Attempt:
    return Attempt(name=name, group=group, language="python", code=code.strip("\n"), **more)


LIMITS = (
    _try("limits", "loop without end", "while True:\n    pass", bare=False, timeout_s=0.5, ends=("time",)),
    _try("limits", "sleep without end", "import asyncio\nwhile True:\n    await asyncio.sleep(1)",
         bare=False, timeout_s=0.5, ends=("time",)),
    _try("limits", "sleep that nothing interrupts", "import time\ntime.sleep(3600)",
         bare=False, timeout_s=0.5, ends=("time",)),
    _try("limits", "loop that ignores signals", """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    pass
""", bare=False, timeout_s=0.5),
    _try("limits", "loop that catches everything", """
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
""", bare=False, timeout_s=0.5, ends=("time",)),
    _try("limits", "an expression without end", 'import re\nreturn re.match("(a+)+$", "a" * 64 + "b")',
         bare=False, timeout_s=0.5),
    _try("limits", "one large number", "return len(str(10 ** 10 ** 9))", bare=False, timeout_s=0.5),
    _try("limits", "a heap without end", "kept = []\nwhile True:\n    kept.append('x' * 1000 + str(len(kept)))",
         bare=False, ends=("memory",)),
    _try("limits", "one large text", "return len('x' * 10 ** 10)", bare=False, ends=("memory",)),
    _try("limits", "shared memory without end", """
import mmap
kept = []
while True:
    kept.append(mmap.mmap(-1, 1 << 20))
    kept[-1].write(b"x" * (1 << 20))
""", bare=False),
    _try("limits", "memory in files without end", """
import os
while True:
    fd = os.memfd_create("x")
    os.write(fd, b"x" * (1 << 20))
""", bare=False),
    _try("limits", "recursion without end", "def again():\n    return again()\nreturn again()", bare=False),
    _try("limits", "output without end", "while True:\n    print('x' * 1000)", bare=False, timeout_s=2.0),
    _try("limits", "a large result", "return 'x' * 50_000_000", bare=False),
    _try("limits", "a large file", """
with open("@FOLDER@/large", "wb") as file:
    for _ in range(200):
        file.write(b"x" * (1 << 20))
import os
return @WON@ if os.path.getsize("@FOLDER@/large") >= 200 << 20 else None
""", folder=True, bare=False),
    _try("limits", "descriptors without end", """
import os
for _ in range(100_000):
    os.dup(0)
return @WON@
""", bare=False),
    _try("limits", "write where nothing is", "import ctypes\nctypes.string_at(0)", bare=False),
    _try("limits", "leave at once", "import os\nos._exit(0)", bare=False),
    _try("limits", "abort", "import os\nos.abort()", bare=False),
    _try("limits", "leave politely", "raise SystemExit(3)", bare=False),
)  # fmt: skip

BRIDGE = (
    _try("bridge", "call a forbidden tool", "return await tools.closed.door()", bare=False),
    _try("bridge", "call a forbidden tool by its full name", 'return await tools("@FORBIDDEN@")', bare=False),
    _try("bridge", "call a forbidden tool by other spellings", """
for name in ("closed__door", "closed:door ", "CLOSED:DOOR", "open:../closed:door", "open:echo\\0closed:door",
             "pml:closed:door", "closed/door", "open:echo\\nclosed:door", "*", ""):
    try:
        await tools(name)
    except Exception:
        pass
""", bare=False),
    _try("bridge", "forge messages on the standard streams", """
import os, json
for kind in ("call", "ret", "done", "result", "tool"):
    for lead in ("", "\\x1e", "\\0"):
        frame = json.dumps({"t": kind, "type": kind, "id": 1, "tool": "closed:door", "name": "closed:door", "args": {}})
        for fd in (1, 2):
            os.write(fd, (lead + frame + "\\n").encode())
""", bare=False),
    _try("bridge", "forge messages on every descriptor", """
import os, json
frame = json.dumps({"t": "call", "type": "call", "id": 7, "tool": "closed:door", "name": "closed:door", "args": {}})
for fd in range(64):
    for data in (frame + "\\n", "\\x1e" + frame + "\\n"):
        try:
            os.write(fd, data.encode())
        except OSError:
            pass
""", bare=False, timeout_s=1.0),
    _try("bridge", "send nonsense on every descriptor", """
import os
for fd in range(64):
    try:
        os.write(fd, b"\\xff\\x00{[" * 100 + b"\\n")
    except OSError:
        pass
""", bare=False, timeout_s=1.0),
    _try("bridge", "close every descriptor", "import os\nos.closerange(0, 64)", bare=False, timeout_s=1.0),
    _try("bridge", "find the bridge among all objects", """
import gc
for thing in gc.get_objects():
    if "call" in dir(thing) and type(thing).__name__.lower().startswith(("bridge", "tool")):
        try:
            thing.call("closed:door", {})
        except Exception:
            pass
""", bare=False),
    _try("bridge", "calls without end", """
import asyncio
async def ask(i):
    return await tools.open.echo(i=i)
await asyncio.gather(*[ask(i) for i in range(100_000)])
""", bare=False, ends=("call", "limit", "memory")),
    _try("bridge", "large arguments", 'return len(str(await tools.open.echo(text="x" * 20_000_000)))', bare=False),
    _try("bridge", "arguments that are no data", "return await tools.open.echo(f=lambda: 1)", bare=False),
    _try("bridge", "arguments that go round", "a = []\na.append(a)\nreturn await tools.open.echo(a=a)", bare=False),
    _try("bridge", "leave with calls under way", """
import asyncio
calls = [asyncio.create_task(tools.open.slow(i=i)) for i in range(10)]
await asyncio.sleep(0)
return 1
""", bare=False),
)  # fmt: skip

TRICKS = (
    _try("tricks", "walk the classes", """
import os
for kind in ().__class__.__base__.__subclasses__():
    if kind.__name__ == "_wrap_close":
        return kind.__init__.__globals__["popen"]("cat @SECRET@").read()
"""),
    _try("tricks", "import by the builtins", """
return getattr(__builtins__, "__import__", None)("os").popen("cat @SECRET@").read()
"""),
    _try("tricks", "import by the loader", """
import importlib
return importlib.import_module("os").popen("cat @SECRET@").read()
"""),
    _try("tricks", "walk by a format", """
import os
def inner(): pass
return "{0.__globals__}".format(inner)
""", bare=False),
    _try("tricks", "walk the frames", """
import sys
frame = sys._getframe()
while frame:
    for scope in (frame.f_globals, frame.f_locals):
        if "@ENV@" in str(scope.get("os", "")):
            return @WON@
    frame = frame.f_back
""", bare=False),
    _try("tricks", "compile", 'return eval(compile("open(\\"@SECRET@\\").read()", "x", "eval"))'),
    _try("tricks", "execute",
         'scope = {}\nexec("import os\\nx = open(\\"@SECRET@\\").read()", scope)\nreturn scope["x"]'),
    _try("tricks", "load a pickle", """
import pickle
return pickle.loads(b"cbuiltins\\nopen\\n(V@SECRET@\\ntR.").read()
"""),
    _try("tricks", "change builtins for the next run", """
import builtins, json, sys
builtins.len = lambda *_: 0
json.dumps = lambda *_, **__: "{}"
sys.modules.clear()
""", bare=False),
)  # fmt: skip

"""Runs in the jailed process, on the standard library alone: takes one piece of code, runs it, tells what came of it.

The protocol is that of ``pml_sandbox.execution``. Nothing here protects anything: what keeps the code in is outside.
"""

from __future__ import annotations

import ast
import asyncio
import io
import json
import linecache
import os
import sys
import threading
import types
from collections.abc import Iterable
from contextlib import suppress
from keyword import iskeyword
from typing import Any, NoReturn

NAME = "<code>"
"""Name of the code in stacks."""
TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
COROUTINE = 0x80
"""``inspect.CO_COROUTINE``; that module takes long to import."""

if __name__ == "__main__":
    lines = os.fdopen(os.dup(0), "rb")
    out = os.dup(1)
    begin = b"\x1e" + json.loads(lines.readline())["mark"].encode()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
turn = threading.RLock()
decode = json.loads
encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
to_bytes, write_some = str.encode, os.write


def send(frame: dict[str, Any]) -> None:
    """Write a frame whole: text that the code prints meanwhile waits."""
    data = memoryview(begin + to_bytes(encode(frame)) + b"\n")
    with turn:
        while data:
            data = data[write_some(out, data) :]


class Stream(io.RawIOBase):
    """Standard output or error of the code."""

    def __init__(self, number: int) -> None:
        self.number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.number

    def write(self, data: Any) -> int:
        with turn:
            return write_some(self.number, data)


class ToolError(Exception):
    """A tool call failed; the message says why. ``code``, ``status``, ``retryable`` and ``tool`` say more."""

    def __init__(self, told: dict[str, Any], number: int) -> None:
        super().__init__(told["message"])
        self.code, self.status, self.retryable = told["code"], told["status"], told["retryable"]
        self.tool, self.number = told["tool"], number


class Calls:
    """Tool calls under way. Each waits in the event loop that it was made in; one thread hears all answers."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]]] = {}
        self.last = 0
        self.listener: threading.Thread | None = None

    async def call(self, tool: str, arguments: Any) -> Any:
        """Ask the gateway, wait for its answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        with turn:
            self.last += 1
            number = self.last
            self.waiting[number] = loop, answer
            if self.listener is None:
                self.listener = threading.Thread(target=self.listen, daemon=True)
                self.listener.start()
        try:
            send({"t": "call", "id": number, "tool": tool, "args": arguments})
            return await answer
        finally:
            self.waiting.pop(number, None)

    def listen(self) -> None:
        """Hand answers to those who wait for them, until there are no more."""
        for line in lines:
            frame = decode(line)
            waiter = self.waiting.get(frame["id"])
            if waiter is not None:
                loop, answer = waiter
                # Fails when that loop is closed already.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(settle, answer, frame)


def settle(answer: asyncio.Future[Any], frame: dict[str, Any]) -> None:
    """Put what the gateway said into what waits for it."""
    if answer.done():
        return
    if "error" in frame:
        answer.set_exception(ToolError(frame["error"], frame["id"]))
    else:
        answer.set_result(frame["value"])


class Tools:
    """``tools.server.tool(...)``, ``tools["server:tool"](...)`` or ``tools("server:tool", ...)``; all are awaited.

    Each part of a name gives another of these; a call of the one that stands for a tool takes ``name=value`` or one
    dictionary.
    """

    def __init__(self, calls: Calls, name: str = "") -> None:
        self._calls, self._name = calls, name

    def __call__(self, *given: Any, **named: Any) -> Any:
        if given and not self._name:
            return self[given[0]](*given[1:], **named)
        if given and (named or len(given) > 1):
            raise TypeError(f"{self._name} takes its arguments by name, or as one object.")
        return self._calls.call(self._name, given[0] if given else named)

    def __getitem__(self, name: str) -> Tools:
        return Tools(self._calls, f"{self._name}:{name}" if self._name else name)

    def __getattr__(self, name: str) -> Tools:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __repr__(self) -> str:
        return f"<tools {self._name}>"


def own(body: list[ast.stmt], kinds: tuple[type[ast.AST], ...]) -> bool:
    """Whether one of ``kinds`` is in the code itself, not in a function or class in it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, kinds) or (isinstance(node, ast.comprehension) and node.is_async and ast.Await in kinds):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def run(code: types.CodeType, scope: dict[str, Any]) -> Any:
    """Run a code object in a scope, in an event loop only if it waits: other code may want one of its own."""
    made = types.FunctionType(code, scope)()
    return asyncio.run(made) if code.co_flags & COROUTINE else made


def compiled(source: str, names: Iterable[str]) -> tuple[types.CodeType, str]:
    """What runs ``source``, and what it is: ``""`` when its last expression is its value, which is ``__value__`` then.

    A source with ``return`` becomes the body of a function ``__body__`` that takes ``names``, and begins as this says.
    Both leave every line where it was.

    Raises:
        SyntaxError: It is none of what a source may be.
    """
    tree = ast.parse(source, NAME)
    if not own(tree.body, (ast.Return,)):
        if tree.body and isinstance(last := tree.body[-1], ast.Expr):
            target = ast.copy_location(ast.Name("__value__", ast.Store()), last)
            tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
        return compile(tree, NAME, "exec", TOP_LEVEL_AWAIT, dont_inherit=True), ""
    kind = "async def" if own(tree.body, (ast.Await, ast.AsyncFor, ast.AsyncWith)) else "def"
    around = ast.parse(f"{kind} __body__({', '.join(names)}):\n    pass")
    around.body[0].body = tree.body  # type: ignore[attr-defined]
    return compile(around, NAME, "exec", dont_inherit=True), kind


def run_body(order: dict[str, Any], scope: dict[str, Any]) -> Any:
    """The value of the code."""
    names = [name for name in order["inputs"] if name in scope and name.isidentifier() and not iskeyword(name)]
    code, kind = compiled(order["code"], names)
    run(code, scope)
    if not kind:
        return scope.get("__value__")
    value = scope.pop("__body__")(*(scope[name] for name in names))
    return asyncio.run(value) if kind == "async def" else value


def returned(value: Any) -> None:
    """Say what the code's value is."""
    try:
        send({"t": "done", "value": value})
    except (TypeError, ValueError, RecursionError) as exc:
        raise TypeError(f"The code returned a {type(value).__name__} that JSON cannot say: {exc}") from exc


def stack(error: BaseException) -> str:
    """``function:line:column`` of what lies in the code, innermost first."""
    if isinstance(error, SyntaxError) and error.filename == NAME:
        return f"the code:{error.lineno or 1}:{error.offset or 1}"
    found: list[str] = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if code.co_filename == NAME:
            column = list(code.co_positions())[step.tb_lasti // 2][2]
            where = "the code" if code.co_name in ("<module>", "__body__") else code.co_name
            found.append(f"{where}:{step.tb_lineno}:{(column or 0) + 1}")
        step = step.tb_next
    return "\n".join(reversed(found))


def tell(error: BaseException) -> None:
    """Say that the code raised ``error``."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    number = error.number if type(error) is ToolError else None
    told = {"name": type(error).__name__, "message": message[:16000], "stack": stack(error), "call": number}
    send({"t": "fail", "error": told})


def show(error: BaseException) -> None:
    """As Python shows an error that ends a program, without the bootstrap's own frames."""
    import traceback

    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename != NAME:
        step = step.tb_next
    traceback.print_exception(type(error), error, step)


def leave(status: int) -> NoReturn:
    """End without waiting for threads that the code has left behind."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status)


def exit_status(error: SystemExit) -> int:
    """That of a process which ends with this; says what else there is to say."""
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def run_program(order: dict[str, Any], scope: dict[str, Any]) -> NoReturn:
    """Run the code as a program, which ends the process."""
    try:
        run(compile(order["code"], NAME, "exec", TOP_LEVEL_AWAIT, dont_inherit=True), scope)
    except SystemExit as end:
        leave(exit_status(end))
    except BaseException as error:
        show(error)
        leave(1)
    leave(0)


def main() -> None:
    """Take the order and carry it out."""
    send({"t": "ready"})
    order = decode(lines.readline() or b"{}")
    if not order:
        leave(0)
    for name, number in (("stdout", 1), ("stderr", 2)):
        buffer = io.BufferedWriter(Stream(number))
        setattr(sys, name, io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=True))
    linecache.cache[NAME] = len(order["code"]), None, order["code"].splitlines(keepends=True), NAME
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    scope = module.__dict__
    scope.update(__builtins__=__builtins__, inputs=order["inputs"], ToolError=ToolError)
    scope.update((name, value) for name, value in order["inputs"].items() if name not in ("tools", "inputs"))
    if order["tools"]:
        scope["tools"] = Tools(Calls())
    sys.argv = [NAME]
    if len(folder) == 1:
        sys.path.insert(0, folder[0])
    if order["program"]:
        run_program(order, scope)
    try:
        returned(run_body(order, scope))
    except SystemExit as end:
        leave(exit_status(end))
    except BaseException as error:
        tell(error)
    leave(0)


if __name__ == "__main__":
    folder = sys.argv[1:]
    main()

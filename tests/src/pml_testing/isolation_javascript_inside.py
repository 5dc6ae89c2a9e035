"""Attempts from inside a sandbox, in TypeScript: on its limits, its bridge to the tools, and JavaScript itself."""

from __future__ import annotations

from typing import Any

from .isolation import Attempt


def _try(group: str, name: str, code: str, **more: Any) -> Attempt:
    return Attempt(name=name, group=group, language="typescript", code=code.strip("\n"), bare=False, **more)


LIMITS = (
    _try("limits", "loop without end", "while (true);", timeout_s=0.5, ends=("time",)),
    _try("limits", "microtasks without end", "while (true) await null;", timeout_s=0.5, ends=("time",)),
    _try("limits", "sleep without end", "await new Promise((said) => setTimeout(said, 1e8));",
         timeout_s=0.5, ends=("time",)),
    _try("limits", "wait that nothing interrupts",
         "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);", timeout_s=0.5),
    _try("limits", "loop that catches everything", "while (true) { try { while (true); } catch { /* again */ } }",
         timeout_s=0.5, ends=("time",)),
    _try("limits", "an expression without end", 'return /(a+)+$/.test("a".repeat(64) + "b");', timeout_s=0.5),
    _try("limits", "timers left behind", "setInterval(() => {}, 1);\nreturn 1;"),
    _try("limits", "one large number", "return String(10n ** (10n ** 9n)).length;", timeout_s=1.0),
    _try("limits", "a heap without end", "const kept = [];\nwhile (true) kept.push({ a: [Math.random()] });"),
    _try("limits", "a large text", 'let t = "x";\nwhile (true) t += t + Math.random();'),
    _try("limits", "buffers without end", """
const kept = [];
while (true) kept.push(new Uint8Array(8 << 20).fill(1));
"""),
    _try("limits", "shared buffers without end", """
const kept = [];
while (true) kept.push(new Uint8Array(new SharedArrayBuffer(8 << 20)).fill(1));
"""),
    _try("limits", "WebAssembly memory without end", """
const kept = [];
while (true) {
  const memory = new WebAssembly.Memory({ initial: 128, maximum: 65536 });
  new Uint8Array(memory.buffer).fill(1);
  kept.push(memory);
}
"""),
    _try("limits", "recursion without end", "const again = (): any => again();\nreturn again();"),
    _try("limits", "output without end", 'while (true) console.log("x".repeat(1000));', timeout_s=2.0),
    _try("limits", "a large result", 'return "x".repeat(50_000_000);'),
    _try("limits", "a result that is no data", "return { f() {}, s: Symbol(), m: new Map([[1, 2]]) };"),
    _try("limits", "a result that goes round", "const a: any = {};\na.a = a;\nreturn a;"),
    _try("limits", "a large file", """
const file = Deno.openSync("@FOLDER@/large", { write: true, create: true });
const chunk = new Uint8Array(1 << 20);
for (let i = 0; i < 200; i++) file.writeSync(chunk);
return Deno.statSync("@FOLDER@/large").size >= 200 << 20 ? @WON@ : null;
""", folder=True),
    _try("limits", "leave at once", "Deno.exit(0);"),
    _try("limits", "a rejection that nobody handles", 'Promise.reject(new Error("x"));\n'
         "await new Promise((said) => setTimeout(said, 50));\nreturn 1;"),
    _try("limits", "end itself", 'Deno.kill(Deno.pid, "SIGKILL");'),
)  # fmt: skip

BRIDGE = (
    _try("bridge", "call a forbidden tool", "return await tools.closed.door({});"),
    _try("bridge", "call a forbidden tool by its full name", 'return await tools["@FORBIDDEN@"]({});'),
    _try("bridge", "call a forbidden tool by other spellings", r"""
for (const name of ["closed__door", "closed:door ", "CLOSED:DOOR", "open:../closed:door", "open:echo\0closed:door",
                    "pml:closed:door", "closed/door", "open:echo\nclosed:door", "*", ""]) {
  try { await tools[name]({}); } catch { /* the next */ }
  try { await tools.open[name]({}); } catch { /* the next */ }
}
"""),
    _try("bridge", "forge messages on the standard streams", r"""
const enc = new TextEncoder();
for (const kind of ["call", "ret", "done", "result", "tool"]) {
  for (const lead of ["", "\x1e", "\0"]) {
    const frame = JSON.stringify({ t: kind, type: kind, id: 1, tool: "closed:door", name: "closed:door", args: {} });
    try { Deno.stdout.writeSync(enc.encode(lead + frame + "\n")); } catch { /* the next */ }
    try { Deno.stderr.writeSync(enc.encode(lead + frame + "\n")); } catch { /* the next */ }
    console.log(lead + frame);
  }
}
""", timeout_s=1.0),
    _try("bridge", "forge messages by node:fs", r"""
const fs = await import("node:fs");
const frame = JSON.stringify({ t: "call", type: "call", id: 7, tool: "closed:door", name: "closed:door", args: {} });
for (let fd = 0; fd < 32; fd++) {
  for (const lead of ["", "\x1e"]) try { fs.writeSync(fd, lead + frame + "\n"); } catch { /* the next */ }
}
""", timeout_s=1.0),
    _try("bridge", "send nonsense", r"""
const enc = new TextEncoder();
for (let i = 0; i < 100; i++) try { Deno.stdout.writeSync(enc.encode("\xff\0{[\n\x1e{\n")); } catch { /* the next */ }
""", timeout_s=1.0),
    _try("bridge", "read what is meant for the bridge", """
const buffer = new Uint8Array(1024);
const read = Deno.stdin.read(buffer);
const call = tools.open.echo({ a: 1 });
return await Promise.race([read, call, new Promise((said) => setTimeout(said, 200))]).then(() => 1);
""", timeout_s=1.0),
    _try("bridge", "close the streams",
         "Deno.stdout.close();\nDeno.stdin.close();\nDeno.stderr.close();", timeout_s=1.0),
    _try("bridge", "calls without end", """
await Promise.all(Array.from({ length: 100_000 }, (_, i) => tools.open.echo({ i })));
""", ends=("call", "limit", "memory")),
    _try("bridge", "large arguments", 'return (await tools.open.echo({ text: "x".repeat(20_000_000) })) ? 1 : 0;'),
    _try("bridge", "arguments that go round", "const a: any = {};\na.a = a;\nreturn await tools.open.echo(a);"),
    _try("bridge", "leave with calls under way", """
for (let i = 0; i < 10; i++) tools.open.slow({ i });
return 1;
"""),
    _try("bridge", "take the bridge's own functions", """
const held = JSON.stringify;
JSON.stringify = ((v: any, ...r: any[]) => held(v?.tool ? { ...v, tool: "closed:door" } : v, ...r)) as any;
return await tools.open.echo({ a: 1 });
"""),
    _try("bridge", "change what objects are", """
(Object.prototype as any).tool = "closed:door";
(Object.prototype as any).t = "call";
(Object.prototype as any).toJSON = () => ({ t: "call", id: 9, tool: "closed:door", args: {} });
return await tools.open.echo({ a: 1 });
"""),
    _try("bridge", "change how lists and maps work", """
Map.prototype.get = () => undefined as any;
Map.prototype.set = function () { return this; } as any;
Array.prototype.push = () => 0;
Promise.prototype.then = (() => {}) as any;
return 1;
""", timeout_s=1.0),
)  # fmt: skip

TRICKS = (
    _try("tricks", "make a function of text", """
return new Function("return Deno.readTextFileSync('@SECRET@')")();
"""),
    _try("tricks", "evaluate", """return eval("Deno.readTextFileSync('@SECRET@')");"""),
    _try("tricks", "by the constructor of constructors", """
return (async () => {}).constructor("return await import('file://@OUTSIDE@/code.ts')")().then((m: any) => m.default);
"""),
    _try("tricks", "run in another context", """
const vm = await import("node:vm");
return vm.runInNewContext("Deno.readTextFileSync('@SECRET@')", { Deno });
"""),
    _try("tricks", "end the wrapper early", """
return 1; }; const stolen = Deno.readTextFileSync("@SECRET@"); console.log(stolen); export const it = async () => {
"""),
    _try("tricks", "a comment that swallows the wrapper", "return 1; /*"),
    _try("tricks", "a promise of its own making", """
return { then(said: any) { said(Deno.readTextFileSync("@SECRET@")); } };
"""),
    _try("tricks", "a stack of its own making", """
(Error as any).prepareStackTrace = (_: any, frames: any[]) => frames.map((f) => f.getThis?.() ?? null);
const held = new Error().stack as any;
return Array.isArray(held) ? held.length : 0;
"""),
    _try("tricks", "put something in the way of the next run", """
(globalThis as any).leftBehind = 1;
Object.defineProperty(globalThis, "JSON", { value: { stringify: () => "{}", parse: () => ({}) } });
return 1;
""", timeout_s=1.0),
)  # fmt: skip

"""Attempts to get out of a sandbox, in TypeScript and JavaScript as Deno runs them."""

from __future__ import annotations

from typing import Any

from .isolation import Attempt
from .isolation_javascript_inside import BRIDGE, LIMITS, TRICKS


def _try(group: str, name: str, code: str, **more: Any) -> Attempt:
    return Attempt(name=name, group=group, language="typescript", code=code.strip("\n"), **more)


FILES = (
    _try("files", "read a file", 'return Deno.readTextFileSync("@SECRET@");'),
    _try("files", "read the list of users", 'return await Deno.readTextFile("/etc/passwd");'),
    _try("files", "read by descriptor", """
const file = Deno.openSync("@SECRET@");
const buffer = new Uint8Array(100);
return new TextDecoder().decode(buffer.subarray(0, file.readSync(buffer)!));
"""),
    _try("files", "read by node:fs",
         'const fs = await import("node:fs");\nreturn fs.readFileSync("@SECRET@", "utf8");'),
    _try("files", "read by node:fs/promises", """
const fs = await import("node:fs/promises");
return await fs.readFile("@SECRET@", "utf8");
"""),
    _try("files", "read by process binding", """
const process = (await import("node:process")).default as any;
return JSON.stringify(process.binding("fs").internalModuleReadJSON("@SECRET@"));
""", bare=False),
    _try("files", "fetch a file", 'return await (await fetch("file://@SECRET@")).text();'),
    _try("files", "import a text", """
const it = await import("file://@SECRET@", { with: { type: "text" } });
return it.default;
"""),
    _try("files", "import data", """
const it = await import("file://@OUTSIDE@/data.json", { with: { type: "json" } });
return it.default.value;
"""),
    _try("files", "import a module", 'return (await import("file://@OUTSIDE@/code.ts")).default;'),
    _try("files", "import by a name put together", """
const place = ["file://@OUTSIDE@", "code.ts"].join("/");
return (await import(place)).default;
"""),
    _try("files", "import through a module in a URL", """
const code = `import t from "file://@OUTSIDE@/data.json" with { type: "json" }; export default t.value;`;
return (await import("data:application/typescript," + encodeURIComponent(code))).default;
"""),
    _try("files", "import through a blob", """
const code = `export { default } from "file://@OUTSIDE@/code.ts";`;
const url = URL.createObjectURL(new Blob([code], { type: "application/typescript" }));
return (await import(url)).default;
"""),
    _try("files", "require", """
const { createRequire } = await import("node:module");
return createRequire("file://@OUTSIDE@/x.js")("./data.json").value;
"""),
    _try("files", "read by a database", """
const { DatabaseSync } = await import("node:sqlite");
const base = new DatabaseSync("@MARK@");
base.exec("create table t (a)");
base.close();
"""),
    _try("files", "list a directory", """
return [...Deno.readDirSync("@OUTSIDE@")].length > 0 ? @WON@ : null;
"""),
    _try("files", "list the root", 'return [...Deno.readDirSync("/")].length > 0 ? @WON@ : null;'),
    _try("files", "ask about a file", 'return Deno.statSync("@SECRET@").isFile ? @WON@ : null;'),
    _try("files", "read through dot dot",
         'return Deno.readTextFileSync("@FOLDER@/../outside/secret.txt");', folder=True),
    _try("files", "read after changing directory",
         'Deno.chdir("@OUTSIDE@");\nreturn Deno.readTextFileSync("secret.txt");'),
    _try("files", "read through a link that is there", 'return Deno.readTextFileSync("@FOLDER@/link/secret.txt");',
         folder=True),
    _try("files", "read through a link of its own", """
Deno.symlinkSync("@OUTSIDE@", "@FOLDER@/new");
return Deno.readTextFileSync("@FOLDER@/new/secret.txt");
""", folder=True),
    _try("files", "read through a hard link", """
Deno.linkSync("@SECRET@", "@FOLDER@/hard");
return Deno.readTextFileSync("@FOLDER@/hard");
""", folder=True),
    _try("files", "read itself by name", 'return Deno.readTextFileSync("/proc/self/maps") ? @WON@ : null;'),
    _try("files", "read its own program", "return Deno.readFileSync(Deno.execPath()).length > 0 ? @WON@ : null;"),
    _try("files", "read in a worker", """
const code = `self.postMessage(Deno.readTextFileSync("@SECRET@"))`;
const url = URL.createObjectURL(new Blob([code], { type: "application/typescript" }));
const worker = new Worker(url, { type: "module" });
return await new Promise((said, failed) => {
  worker.onmessage = (e) => said(e.data);
  worker.onerror = (e) => { e.preventDefault(); failed(new Error(e.message)); };
  setTimeout(() => failed(new Error("nothing said")), 1000);
});
"""),
    _try("files", "a worker from a file", """
const worker = new Worker("file://@OUTSIDE@/code.ts", { type: "module" });
await new Promise((said) => { worker.onmessage = said; worker.onerror = (e) => { e.preventDefault(); said(e); };
  setTimeout(said, 200); });
return null;
""", bare=False),
    _try("files", "a worker with more permissions", """
const code = `self.postMessage(Deno.readTextFileSync("@SECRET@"))`;
const url = URL.createObjectURL(new Blob([code], { type: "application/typescript" }));
const worker = new Worker(url, { type: "module", deno: { permissions: { read: true, net: true, run: true } } } as any);
return await new Promise((said, failed) => {
  worker.onmessage = (e) => said(e.data);
  worker.onerror = (e) => { e.preventDefault(); failed(new Error(e.message)); };
  setTimeout(() => failed(new Error("nothing said")), 1000);
});
""", bare=False),
    _try("files", "ask for permission", """
await Deno.permissions.request({ name: "read" });
return Deno.readTextFileSync("@SECRET@");
"""),
    _try("files", "write a file", 'Deno.writeTextFileSync("@MARK@", "x");'),
    _try("files", "change a file", 'Deno.writeTextFileSync("@SECRET@", "x");'),
    _try("files", "cut a file", 'Deno.truncateSync("@SECRET@", 0);'),
    _try("files", "remove a file", 'Deno.removeSync("@SECRET@");'),
    _try("files", "remove a tree", 'Deno.removeSync("@OUTSIDE@", { recursive: true });'),
    _try("files", "make a directory", 'Deno.mkdirSync("@MARK@");'),
    _try("files", "make a temporary directory", "Deno.removeSync(Deno.makeTempDirSync());\nreturn @WON@;"),
    _try("files", "move a file out", 'Deno.renameSync("@FOLDER@/own.txt", "@MARK@");', folder=True),
    _try("files", "move a file in", 'Deno.renameSync("@SECRET@", "@FOLDER@/in.txt");', folder=True),
    _try("files", "copy a file in", """
Deno.copyFileSync("@SECRET@", "@FOLDER@/in.txt");
return Deno.readTextFileSync("@FOLDER@/in.txt");
""", folder=True),
    _try("files", "make a link outside", 'Deno.symlinkSync("/etc", "@MARK@");'),
    _try("files", "change a mode", 'Deno.chmodSync("@SECRET@", 0o777);'),
    _try("files", "watch a directory", """
const watcher = Deno.watchFs("@OUTSIDE@");
watcher.close();
return @WON@;
"""),
    _try("files", "keep something for the next run", """
const kept = (globalThis as any).localStorage ?? (globalThis as any).caches ?? (globalThis as any).Deno?.openKv;
return kept ? @WON@ : null;
"""),
)  # fmt: skip

ENVIRONMENT = (
    _try("environment", "read a variable", 'return Deno.env.get("@ENV@");'),
    _try("environment", "read all variables", "return Deno.env.toObject();"),
    _try("environment", "read by node:process", 'return (await import("node:process")).default.env["@ENV@"];'),
    _try("environment", "read what it was started with", 'return Deno.readTextFileSync("/proc/self/environ");'),
    _try("environment", "read what the gateway was started with", """
return Deno.readTextFileSync("/proc/@GATEWAY@/cmdline") ? @WON@ : null;
"""),
    _try("environment", "the name of the machine", "return Deno.hostname() ? @WON@ : null;"),
    _try("environment", "the user and the home directory", """
return (await import("node:os")).homedir() ? @WON@ : null;
"""),
    _try("environment", "the network's addresses", "return Deno.networkInterfaces().length > 0 ? @WON@ : null;"),
)  # fmt: skip

NETWORK = (
    _try("network", "connect by TCP", 'await Deno.connect({ hostname: "127.0.0.1", port: @TCP@ });'),
    _try("network", "connect by node:net", """
const net = await import("node:net");
await new Promise((ok, no) => { const s = net.connect(@TCP@, "127.0.0.1", () => ok(s)); s.on("error", no); });
"""),
    _try("network", "fetch a page", """
await fetch("http://127.0.0.1:@TCP@/", { signal: AbortSignal.timeout(200) });
"""),
    _try("network", "fetch by node:http", """
const http = await import("node:http");
await new Promise((ok, no) => {
  const request = http.get("http://127.0.0.1:@TCP@/", ok);
  request.on("error", no);
  setTimeout(ok, 200);
});
"""),
    _try("network", "open a web socket", """
const socket = new WebSocket("ws://127.0.0.1:@TCP@/");
await new Promise((said) => { socket.onopen = said; socket.onerror = said; setTimeout(said, 200); });
"""),
    _try("network", "import a page", """
const place = "http://127.0.0.1:@TCP@/code.ts";
await Promise.race([import(place), new Promise((said) => setTimeout(said, 200))]);
"""),
    _try("network", "send by UDP", """
const dgram = await import("node:dgram");
const socket = dgram.createSocket("udp4");
await new Promise((ok, no) => { socket.on("error", no);
  socket.send("x", @UDP@, "127.0.0.1", (e) => e ? no(e) : ok(0)); });
socket.close();
"""),
    _try("network", "ask for a name", 'await Deno.resolveDns("localhost", "A");\nreturn @WON@;', bare=False),
    _try("network", "ask for a name by node:dns", """
const dns = await import("node:dns");
return await new Promise((said) => dns.lookup("localhost", (e, address) => said(e ? null : @WON@)));
"""),
    _try("network", "listen", 'Deno.listen({ hostname: "127.0.0.1", port: 0 }).close();\nreturn @WON@;'),
    _try("network", "connect to a Unix socket", 'await Deno.connect({ transport: "unix", path: "@STREAM@" } as any);'),
    _try("network", "connect to a Unix socket by node:net", """
const net = await import("node:net");
await new Promise((ok, no) => { const s = net.connect("@STREAM@", () => ok(s)); s.on("error", no); });
"""),
    _try("network", "use a socket that was left open", """
const net = await import("node:net");
const server = net.createServer();
return await new Promise((said) => {
  server.on("error", () => said(null));
  server.listen({ fd: @INHERITED@ }, () => said((server.address() as any)?.port === @TCP@ ? @WON@ : null));
  setTimeout(() => said(null), 200);
});
""", bare=False),
    _try("network", "use any descriptor as a socket", """
const net = await import("node:net");
for (let fd = 3; fd < 64; fd++) {
  try {
    const socket = new net.Socket({ fd });
    if (socket.remoteAddress || socket.localAddress) return @WON@;
  } catch { /* the next */ }
}
return null;
""", bare=False),
)  # fmt: skip

PROCESSES = (
    _try("processes", "run a program", """
await new Deno.Command("/bin/sh", { args: ["-c", "echo > @MARK@"] }).output();
"""),
    _try("processes", "run by node:child_process", """
(await import("node:child_process")).execSync("echo > @MARK@");
"""),
    _try("processes", "fork by node:child_process", """
const { spawn } = await import("node:child_process");
await new Promise((said) => {
  const child = spawn("/bin/sh", ["-c", "echo > @MARK@"]);
  child.on("error", said);
  child.on("exit", said);
});
"""),
    _try("processes", "run itself again", """
await new Deno.Command(Deno.execPath(), { args: ["eval", "Deno.writeTextFileSync('@MARK@', 'x')"] }).output();
"""),
    _try("processes", "load a library", """
const library = Deno.dlopen("libc.so.6", { getpid: { parameters: [], result: "i32" } });
return library.symbols.getpid() > 0 ? @WON@ : null;
"""),
    _try("processes", "end another process", 'Deno.kill(@VICTIM@, "SIGKILL");'),
    _try("processes", "end another process by node:process", """
(await import("node:process")).default.kill(@VICTIM@, "SIGKILL");
"""),
    _try("processes", "slow another process down", """
(await import("node:os")).setPriority(@VICTIM@, 19);
"""),
    _try("processes", "change its user", """
const process = (await import("node:process")).default as any;
process.setuid(65534);
return process.getuid() === 65534 ? @WON@ : null;
""", bare=False),
    _try("processes", "start workers without end", """
const url = URL.createObjectURL(new Blob(["setInterval(() => {}, 1000)"], { type: "application/javascript" }));
const kept = [];
while (true) { kept.push(new Worker(url, { type: "module" })); await new Promise((said) => setTimeout(said, 0)); }
""", bare=False, timeout_s=1.0),
)  # fmt: skip

KERNEL = (
    _try("kernel", "operations of the runtime", """
const ops = (Deno as any)[(Deno as any).internal]?.core?.ops ?? {};
for (const name of ["op_fs_read_file_text_sync", "op_read_file_text_sync", "op_fs_read_file_sync"]) {
  if (ops[name]) return String(ops[name]("@SECRET@"));
}
return null;
""", bare=False),
    _try("kernel", "open the debugger", """
const inspector = await import("node:inspector");
inspector.open(0, "127.0.0.1");
return inspector.url() ? @WON@ : null;
""", bare=False),
    _try("kernel", "load an extension into a database", """
const { DatabaseSync } = await import("node:sqlite");
const base = new DatabaseSync(":memory:", { allowExtension: true } as any);
(base as any).loadExtension("@OUTSIDE@/x.so");
return @WON@;
""", bare=False),
    _try("kernel", "run WebAssembly with the system", """
const { WASI } = await import("node:wasi") as any;
new WASI({ version: "preview1", preopens: { "/": "/" } });
return null;
""", bare=False),
)  # fmt: skip

ATTEMPTS = (*FILES, *ENVIRONMENT, *NETWORK, *PROCESSES, *KERNEL, *LIMITS, *BRIDGE, *TRICKS)

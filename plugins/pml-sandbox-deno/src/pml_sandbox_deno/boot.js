// The only main module. What is to run comes as a frame and is loaded by a dynamic import whose specifier is computed:
// static imports of a main module, and literal ones, are exempt from permission checks, and code must not be.
//
// Everything used after the code has begun is taken here, so that code that changes built-in objects changes none of it.
const { stdin, stdout, exit } = Deno;
const { Blob, Error, Promise, Proxy, String, TypeError, WeakMap } = globalThis;
const { parse, stringify } = JSON;
const bound = (method) => Function.prototype.call.bind(method);
const encode = TextEncoder.prototype.encode.bind(new TextEncoder());
const decode = TextDecoder.prototype.decode.bind(new TextDecoder());
const read = stdin.read.bind(stdin);
const writeSync = stdout.writeSync.bind(stdout);
const subarray = bound(Uint8Array.prototype.subarray);
const indexOf = bound(String.prototype.indexOf);
const slice = bound(String.prototype.slice);
const callOf = bound(WeakMap.prototype.get);
const noteCall = bound(WeakMap.prototype.set);
const objectUrl = URL.createObjectURL.bind(URL);
const { defineProperty, keys } = Object;
const isIdentifier = RegExp.prototype.test.bind(/^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u);
const TYPES = { __proto__: null, typescript: "application/typescript", javascript: "text/javascript" };
const RESERVED = {
  __proto__: null, arguments: 1, await: 1, break: 1, case: 1, catch: 1, class: 1, const: 1, continue: 1, debugger: 1,
  default: 1, delete: 1, do: 1, else: 1, enum: 1, eval: 1, export: 1, extends: 1, false: 1, finally: 1, for: 1,
  function: 1, if: 1, implements: 1, import: 1, in: 1, inputs: 1, instanceof: 1, interface: 1, let: 1, new: 1, null: 1,
  package: 1, private: 1, protected: 1, public: 1, return: 1, static: 1, super: 1, switch: 1, this: 1, throw: 1,
  tools: 1, true: 1, try: 1, typeof: 1, var: 1, void: 1, while: 1, with: 1, yield: 1,
};

let buffer = "";
const chunk = new Uint8Array(65536);

/** The next frame, without its line feed. */
async function line() {
  for (let from = 0;;) {
    const end = indexOf(buffer, "\n", from);
    if (end >= 0) {
      const text = slice(buffer, 0, end);
      buffer = slice(buffer, end + 1);
      return text;
    }
    from = buffer.length;
    const count = await read(chunk);
    if (count === null) exit(9);
    buffer += decode(subarray(chunk, 0, count), { stream: true });
  }
}

const begin = "\x1e" + parse(await line()).mark;

/** Frames are put together as text: objects would go through whatever code has done to JSON and to Object. */
function write(text) {
  let bytes = encode(begin + text + "\n");
  while (bytes.length) bytes = subarray(bytes, writeSync(bytes));
}

// Under numbers: what to do with an answer.
const resolves = { __proto__: null }, rejects = { __proto__: null }, places = { __proto__: null };
const callNumbers = new WeakMap();
let last = 0, pending = 0, listening = false;

class ToolError extends Error {
  constructor(told, number) {
    super(told.message);
    defineProperty(this, "name", { value: "ToolError", enumerable: false });
    // Where the call was made, and not where its answer was read.
    const place = places[number].stack;
    if (typeof place === "string") {
      const frames = slice(place, indexOf(place, "\n"));
      defineProperty(this, "stack", { value: "ToolError: " + told.message + frames, writable: true, configurable: true });
    }
    this.code = told.code;
    this.status = told.status;
    this.retryable = told.retryable;
    this.tool = told.tool;
    noteCall(callNumbers, this, number);
  }
}

function call(tool, args) {
  const text = stringify(args === undefined ? {} : args);
  const number = ++last;
  return new Promise((resolve, reject) => {
    resolves[number] = resolve;
    rejects[number] = reject;
    places[number] = new Error("call");
    write('{"t":"call","id":' + number + ',"tool":' + stringify(tool) + ',"args":' + (text ?? "null") + "}");
    pending++;
    if (!listening) listen();
  });
}

/** Reads only while there is something to wait for: a program, or a function that waits for nothing, can end then. */
async function listen() {
  listening = true;
  while (pending) answered(parse(await line()));
  listening = false;
}

function answered(frame) {
  const { id } = frame;
  const resolve = resolves[id], reject = rejects[id];
  if (!resolve) return;
  pending--;
  if (frame.error) reject(new ToolError(frame.error, id));
  else resolve(frame.value);
  delete resolves[id];
  delete rejects[id];
  delete places[id];
}

const names = (target, make) =>
  new Proxy(target, {
    get: (_target, name) => typeof name === "symbol" || name === "then" ? undefined : make(name),
    set: () => false,
    defineProperty: () => false,
    deleteProperty: () => false,
  });
const callable = (name) => (args) => call(name, args);
const tools = names({ __proto__: null }, (server) =>
  names(callable(server), (tool) => callable(server + ":" + tool)));

function textOf(error, name) {
  try {
    const value = error[name];
    return typeof value === "string" ? slice(value, 0, 16000) : "";
  } catch {
    return "";
  }
}

let over = false;

function failed(error) {
  if (over) return;
  over = true;
  const isObject = (typeof error === "object" && error !== null) || typeof error === "function";
  let message = isObject ? textOf(error, "message") : "";
  try {
    if (!isObject) message = String(error);
  } catch { /* a value that cannot be told */ }
  const number = isObject ? callOf(callNumbers, error) : undefined;
  write(
    '{"t":"fail","error":{"name":' + stringify(isObject ? textOf(error, "name") || "Error" : "Error") +
      ',"message":' + stringify(message) + ',"stack":' + stringify(isObject ? textOf(error, "stack") : "") +
      ',"call":' + (number ?? "null") + "}}",
  );
}

function returned(value) {
  const text = value === undefined ? "null" : stringify(value);
  if (text === undefined) throw new TypeError(`The code returned a ${typeof value}; return data that JSON can say.`);
  if (over) return;
  over = true;
  write('{"t":"done","value":' + text + "}");
}

const moduleOf = (source, language) => objectUrl(new Blob([source], { type: TYPES[language] }));

async function runFunction(order) {
  let taken = "";
  for (const name of keys(order.inputs)) if (isIdentifier(name) && !(name in RESERVED)) taken += name + ",";
  // The source stands in a block of its own, from the second line on: it may use the names of inputs for other things.
  const head = `export default async (tools, inputs) => { const {${taken}} = inputs; return await (async () => {\n`;
  const typed = order.language === "typescript" ? head.replace("(tools, inputs)", "(tools: any, inputs: any)") : head;
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    failed(event.reason);
  });
  globalThis.addEventListener("error", (event) => {
    event.preventDefault();
    failed(event.error);
  });
  try {
    const { default: body } = await import(moduleOf(typed + order.code + "\n})(); }", order.language));
    returned(await body(tools, order.inputs));
  } catch (error) {
    failed(error);
  }
}

function urlOf(path) {
  const slashed = Deno.build.os === "windows" ? "/" + path.replaceAll("\\", "/") : path;
  return "file://" + encodeURI(slashed).replaceAll("#", "%23").replaceAll("?", "%3F");
}

async function runProgram(order) {
  const own = { value: order.inputs, configurable: true, enumerable: false, writable: true };
  defineProperty(globalThis, "inputs", own);
  if (order.tools) defineProperty(globalThis, "tools", { ...own, value: tools });
  await import(order.file === null ? moduleOf(order.code, order.language) : urlOf(order.file));
}

// What one run stores, another must not find.
for (const name of ["localStorage", "sessionStorage", "caches", "indexedDB"]) delete globalThis[name];
// The first module of its kind takes ten times as long as the second.
await import(moduleOf("export default (a: number) => a", "typescript"));
write('{"t":"ready"}');
const order = parse(await line());
await (order.program ? runProgram(order) : runFunction(order));

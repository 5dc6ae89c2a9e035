// Says whether sources parse. None of them runs: they are handed to parsers and compilers only, so one process serves
// for all of them.
import { stripTypeScriptTypes } from "node:module";
import { Script } from "node:vm";

const { stdin, stdout, exit } = Deno;
const encoder = new TextEncoder(), decoder = new TextDecoder();
const chunk = new Uint8Array(65536);
let buffer = "";

/** The next line, without its line feed. */
async function line() {
  for (let from = 0;;) {
    const end = buffer.indexOf("\n", from);
    if (end >= 0) {
      const text = buffer.slice(0, end);
      buffer = buffer.slice(end + 1);
      return text;
    }
    from = buffer.length;
    const count = await stdin.read(chunk);
    if (count === null) exit(0);
    buffer += decoder.decode(chunk.subarray(0, count), { stream: true });
  }
}

const begin = "\x1e" + JSON.parse(await line()).mark;

function write(frame) {
  let bytes = encoder.encode(begin + JSON.stringify(frame) + "\n");
  while (bytes.length) bytes = bytes.subarray(stdout.writeSync(bytes));
}

// A body stands from the second line on, as it does when it runs; modules are strict.
const HEAD = '"use strict"; (async (tools, inputs) => { return await (async () => {\n';
const TAIL = "\n})(); })";

/** What the parser of TypeScript, which takes JavaScript for TypeScript, says; null for nothing. */
function ofParser(text, above) {
  try {
    stripTypeScriptTypes(text, { mode: "transform" });
    return null;
  } catch (error) {
    const said = String(error.message);
    const at = /:(\d+):(\d+)$/.exec(said.trimEnd());
    const message = said.split("\n", 1)[0].replace(/^SyntaxError: /, "").replace(/ at file:\S+$/, "");
    return { message, line: at ? at[1] - above : null, column: at ? +at[2] : null };
  }
}

/** Why a script does not compile; "" when it does. */
function refusal(text) {
  try {
    new Script(text);
    return "";
  } catch (error) {
    return String(error.message);
  }
}

/** What V8 says, which tells no place: that is where the shortest beginning ends that it refuses for the same reason. */
function ofCompiler(code) {
  const message = refusal(HEAD + code + TAIL);
  if (!message) return null;
  const lines = code.split("\n");
  let low = 1, high = lines.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (refusal(HEAD + lines.slice(0, middle).join("\n")) === message) high = middle;
    else low = middle + 1;
  }
  return { message, line: low, column: null };
}

/** The JavaScript that a body comes to, every line where it was; null where that takes more than leaving types out. */
function stripped(code) {
  try {
    const text = stripTypeScriptTypes(HEAD + code + TAIL, { mode: "strip" });
    return text.startsWith(HEAD) && text.endsWith(TAIL) ? text.slice(HEAD.length, -TAIL.length) : null;
  } catch {
    return null;
  }
}

function problemOf({ code, language, program }) {
  if (program) return ofParser(code, 0);
  const wrapped = HEAD + code + TAIL;
  if (language === "javascript") {
    const found = ofCompiler(code);
    return found && (ofParser(wrapped, 1) ?? found);
  }
  const found = ofParser(wrapped, 1);
  // V8 knows no decorators, which Deno takes out of TypeScript.
  if (found || /(^|[\s;{}])@[\w$(]/.test(code)) return found;
  const plain = stripped(code);
  return plain === null ? null : ofCompiler(plain);
}

// The first use takes a hundred times as long as the second.
problemOf({ code: "const a: number = 1", language: "typescript", program: false });
write({ t: "ready" });
for (;;) {
  const asked = JSON.parse(await line());
  write({ t: "parsed", id: asked.id, problem: problemOf(asked) });
}

// A client made with the TypeScript SDK. Takes {sdk, mode, command, args, env, cwd} as JSON, connects to that process,
// does everything that clients do, and prints what came of it as JSON.

const given = JSON.parse(process.argv[2]);
const sdk = given.sdk === 1 ? await first() : await second();
const seen = { progress: [], asked: [] };
let listed;
const changed = new Promise((resolve) => { listed = resolve; });

/** The package of version 1, which has the revisions with a handshake only. */
async function first() {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const types = await import("@modelcontextprotocol/sdk/types.js");
  const schemas = {
    "elicitation/create": types.ElicitRequestSchema,
    "roots/list": types.ListRootsRequestSchema,
    "sampling/createMessage": types.CreateMessageRequestSchema,
  };
  return {
    Client,
    StdioClientTransport,
    protocol: (client) => client.transport.protocolVersion ?? "2025-11-25",
    answer: (client, method, handler) => client.setRequestHandler(schemas[method], handler),
    call: (client, name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
  };
}

/** The packages of version 2, which have all revisions. */
async function second() {
  const { Client } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  return {
    Client,
    StdioClientTransport,
    protocol: (client) => client.getNegotiatedProtocolVersion(),
    answer: (client, method, handler) => client.setRequestHandler(method, handler),
    call: (client, name, args, options) => client.callTool({ name, arguments: args }, options),
  };
}

/** What a promise that must fail failed with. */
async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return { code: error.code, message: error.message, name: error.name };
  }
  return null;
}

function answerQuestions(client) {
  sdk.answer(client, "sampling/createMessage", async ({ params }) => {
    seen.asked.push(["sampling", params.maxTokens]);
    const content = { type: "text", text: "twice a day" };
    return { role: "assistant", model: "a-model", stopReason: "endTurn", content };
  });
  sdk.answer(client, "elicitation/create", async ({ params }) => {
    seen.asked.push(["elicitation", Object.keys(params.requestedSchema.properties).length]);
    return { action: "accept", content: { name: "Ada", check: true } };
  });
  sdk.answer(client, "roots/list", async () => ({ roots: [{ uri: "file:///srv/tides", name: "tides" }] }));
}

async function cancelled(client) {
  const controller = new AbortController();
  const onprogress = () => controller.abort("changed my mind");
  return failure(sdk.call(client, "lively__wait", {}, { signal: controller.signal, onprogress }));
}

async function tools(client) {
  seen.tools = (await client.listTools()).tools;
  seen.echo = await sdk.call(client, "plain__echo", { text: "grüß dich ✓" });
  seen.add = await sdk.call(client, "typed__add", { a: 40, b: 2 });
  seen.fail = await sdk.call(client, "plain__fail", {});
  seen.unknown = await failure(sdk.call(client, "plain_ecko", { text: "x" }));
  const tasks = [
    { id: "sum", tool: "typed:add", arguments: { a: 20, b: 22 } },
    { id: "note", tool: "plain:write_note", arguments: { text: "total {{sum.total}}" } },
  ];
  seen.workflow = await sdk.call(client, "execute_workflow", { workflow: { tasks } });
  const onprogress = ({ progress, total }) => seen.progress.push([progress, total]);
  const duration = { duration: 0.3, steps: 3 };
  seen.long = await sdk.call(client, "everything__trigger-long-running-operation", duration, { onprogress });
  seen.cancelled = await cancelled(client);
  seen.after = await sdk.call(client, "plain__echo", { text: "still here" });
}

async function features(client) {
  seen.resources = (await client.listResources()).resources.map(({ uri }) => uri);
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map(({ uriTemplate }) => uriTemplate);
  seen.status = JSON.parse((await client.readResource({ uri: "pml://status" })).contents[0].text);
  seen.read = await client.readResource({ uri: "demo://resource/static/document/startup.md" });
  seen.missing = await failure(client.readResource({ uri: "demo://resource/nothing" }));
  seen.prompts = (await client.listPrompts()).prompts.map(({ name }) => name);
  seen.prompt = await client.getPrompt({ name: "everything__args-prompt", arguments: { city: "Bergen" } });
  const ref = { type: "ref/prompt", name: "everything__completable-prompt" };
  seen.completion = await client.complete({ ref, argument: { name: "department", value: "S" } });
}

async function questions(client) {
  seen.sampling = await sdk.call(client, "everything__trigger-sampling-request", { prompt: "tides?", maxTokens: 9 });
  seen.elicitation = await sdk.call(client, "everything__trigger-elicitation-request", {});
  seen.roots = await sdk.call(client, "everything__get-roots-list", {});
}

const client = new sdk.Client(
  { name: "typescript", version: "1" },
  {
    capabilities: { sampling: {}, elicitation: { form: {} }, roots: {} },
    versionNegotiation: { mode: given.mode },
    listChanged: { tools: { debounceMs: 0, onChanged: (error, all) => error || all.some(isGrown) && listed(all) } },
  },
);
function isGrown({ name }) {
  return name === "lively__grown";
}
answerQuestions(client);
const { command, args, env, cwd } = given;
await client.connect(new sdk.StdioClientTransport({ command, args, env, cwd, stderr: "ignore" }));
seen.protocol = sdk.protocol(client);
seen.server = client.getServerVersion();
await tools(client);
await features(client);
await questions(client);
await sdk.call(client, "lively__grow", {});
seen.changed = (await changed).map(({ name }) => name);
await client.close();
console.log(JSON.stringify(seen));

// An MCP server of 2026-07-28 with the tasks extension, at http://127.0.0.1:PORT/mcp: node tasks-server.mjs PORT
//
// It has the tools that the conformance suite's tasks scenarios call, and tools for the tests:
//   hold            returns a task that works until POST /finish
//   ask_twice       returns a task that asks for `one`, then for `two`
//   unlimited       returns a task whose ttlMs is null, or 30 days with {"days":30}
//   overlong        returns a task whose id has 2,000 characters
//   undeclared      returns a task to every client, also to one that does not declare the extension
//   declared        returns the `_meta` that reached the server
// GET /state returns the requests that reached the server and its tasks. POST /finish completes the tasks of `hold`.

import { randomUUID } from "node:crypto";
import { REVISION, RpcError, checkHeaders, meta, serve, stream } from "./message.mjs";

const EXTENSION = "io.modelcontextprotocol/tasks";
const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";
const TERMINAL = ["completed", "failed", "cancelled"];
const NAMED = {
  "tools/call": "name",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};

const tasks = new Map();
const listeners = new Set();
const requests = [];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const text = (said, more = {}) => ({ content: [{ type: "text", text: said }], ...more });
const declares = (params) => meta(params, "clientCapabilities")?.extensions?.[EXTENSION] !== undefined;
const elicit = (message, property) => ({
  method: "elicitation/create",
  params: {
    mode: "form",
    message,
    requestedSchema: { type: "object", properties: { [property]: { type: "string" } }, required: [property] },
  },
});

function requireTasks(params) {
  if (declares(params)) return;
  const requiredCapabilities = { extensions: { [EXTENSION]: {} } };
  throw new RpcError(-32021, "this needs the tasks extension", { requiredCapabilities });
}

// === tasks ===

function create(tool, more = {}) {
  const now = new Date().toISOString();
  const task = { taskId: randomUUID(), status: "working", createdAt: now, lastUpdatedAt: now, ttlMs: 600_000, ...more };
  tasks.set(task.taskId, { tool, task: { pollIntervalMs: 100, ...task } });
  return task.taskId;
}

/** Puts a task into another state, unless it has ended. */
function change(taskId, status, more = {}) {
  const entry = tasks.get(taskId);
  if (TERMINAL.includes(entry.task.status)) return;
  const { inputRequests, ...task } = entry.task;
  entry.task = { ...task, status, lastUpdatedAt: new Date().toISOString(), ...more };
  for (const { taskIds, send, id } of listeners) {
    if (taskIds.includes(taskId)) {
      send({ method: "notifications/tasks", params: { ...entry.task, _meta: { [SUBSCRIPTION]: id } } });
    }
  }
}

/** Starts the work of a task; what it throws is the task's error. */
function start(tool, work, more) {
  const taskId = create(tool, more);
  const end = (result) => change(taskId, "completed", { result: { resultType: "complete", ...result } });
  const fail = ({ code = -32603, message }) => change(taskId, "failed", { error: { code, message } });
  work(taskId).then(end, fail);
  const { result, error, inputRequests, ...created } = tasks.get(taskId).task;
  return { resultType: "task", ...created };
}

/** Waits until the client has answered all of `inputRequests`, and gives its answers. */
function ask(taskId, inputRequests) {
  return new Promise((resolve) => {
    tasks.get(taskId).asked = { open: inputRequests, given: {}, resolve };
    change(taskId, "input_required", { inputRequests });
  });
}

function update(taskId, responses) {
  const { asked } = tasks.get(taskId);
  if (!asked) return;
  for (const [key, given] of Object.entries(responses)) {
    if (!(key in asked.open)) continue;
    asked.given[key] = given;
    delete asked.open[key];
  }
  if (Object.keys(asked.open).length > 0) return change(taskId, "input_required", { inputRequests: asked.open });
  tasks.get(taskId).asked = undefined;
  change(taskId, "working");
  asked.resolve(asked.given);
}

// === tools ===

const tools = {
  greet: ({ arguments: given }) => text(`Hello, ${given.name}!`),
  slow_compute: async (params) => {
    const { seconds = 0, label = "" } = params.arguments ?? {};
    const work = async () => {
      await sleep(seconds * 1000);
      return text(`computed ${label}`);
    };
    return declares(params) && seconds > 0 ? start("slow_compute", work) : work();
  },
  failing_job: (params) => {
    requireTasks(params);
    return start("failing_job", async () => {
      await sleep(300);
      return text("the job failed", { isError: true });
    });
  },
  protocol_error_job: (params) => {
    requireTasks(params);
    return start("protocol_error_job", async () => {
      await sleep(100);
      throw new RpcError(-32603, "the job crashed");
    });
  },
  confirm_delete: (params) => {
    requireTasks(params);
    return start("confirm_delete", async (taskId) => {
      const { confirm } = await ask(taskId, { confirm: elicit(`Delete ${params.arguments?.filename}?`, "confirm") });
      return text(confirm.action === "accept" ? "deleted" : "kept");
    });
  },
  multi_input: (params) => {
    requireTasks(params);
    return start("multi_input", async (taskId) => {
      const given = await ask(taskId, { first: elicit("First?", "name"), second: elicit("Second?", "name") });
      return text(`${given.first.content?.name} ${given.second.content?.name}`);
    });
  },
  test_tool_with_task: (params) => {
    requireTasks(params);
    const name = params.inputResponses?.user_name?.content?.name;
    if (name === undefined) {
      return {
        resultType: "input_required",
        inputRequests: { user_name: elicit("Who are you?", "name") },
        requestState: "asked",
      };
    }
    if (params.requestState !== "asked") throw new RpcError(-32602, "requestState is not the one that was given");
    return start("test_tool_with_task", async () => text(`Hello, ${name}!`));
  },
  hold: (params) => {
    requireTasks(params);
    return start("hold", (taskId) => new Promise((resolve) => (tasks.get(taskId).finish = resolve)));
  },
  ask_twice: (params) => {
    requireTasks(params);
    return start("ask_twice", async (taskId) => {
      const { one } = await ask(taskId, { one: elicit("One?", "name") });
      const { two } = await ask(taskId, { two: elicit("Two?", "name") });
      return text(`${one.content?.name} ${two.content?.name}`);
    });
  },
  unlimited: (params) => {
    requireTasks(params);
    const { days } = params.arguments ?? {};
    const work = (taskId) => new Promise((resolve) => (tasks.get(taskId).finish = resolve));
    return start("unlimited", work, { ttlMs: days ? days * 86_400_000 : null });
  },
  overlong: (params) => {
    requireTasks(params);
    return start("overlong", async () => text("done"), { taskId: randomUUID() + "x".repeat(1964) });
  },
  undeclared: () => start("undeclared", async () => text("done")),
  declared: ({ _meta }) => text(JSON.stringify(_meta), { structuredContent: _meta }),
};

// === methods ===

function known(params) {
  requireTasks(params);
  const entry = tasks.get(params.taskId);
  if (!entry) throw new RpcError(-32602, "task not found");
  return entry;
}

function listen({ id, params }, response) {
  const taskIds = params.notifications?.taskIds;
  if (taskIds) requireTasks(params);
  const listener = { id, taskIds: (taskIds ?? []).filter((taskId) => tasks.has(taskId)), send: stream(response) };
  const notifications = taskIds ? { taskIds: listener.taskIds } : {};
  const method = "notifications/subscriptions/acknowledged";
  listener.send({ method, params: { notifications, _meta: { [SUBSCRIPTION]: id } } });
  listeners.add(listener);
  response.on("close", () => listeners.delete(listener));
}

async function answer(message, request, response) {
  const { method, params = {} } = message;
  requests.push({ method, name: request.headers["mcp-name"], params });
  checkHeaders(request, message, NAMED);
  const cached = { resultType: "complete", ttlMs: 0, cacheScope: "private" };
  switch (method) {
    case "server/discover":
      return {
        ...cached,
        supportedVersions: [REVISION],
        capabilities: { tools: {}, extensions: { [EXTENSION]: {} } },
        _meta: { "io.modelcontextprotocol/serverInfo": { name: "tasks-server", version: "1.0.0" } },
      };
    case "tools/list":
      return { ...cached, tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: "object" } })) };
    case "tools/call": {
      const tool = Object.hasOwn(tools, params.name) && tools[params.name];
      if (!tool) throw new RpcError(-32602, "no such tool");
      return { resultType: "complete", ...(await tool(params)) };
    }
    case "tasks/get":
      return { resultType: "complete", ...known(params).task };
    case "tasks/update":
      known(params);
      update(params.taskId, params.inputResponses ?? {});
      return { resultType: "complete" };
    case "tasks/cancel":
      known(params);
      change(params.taskId, "cancelled");
      return { resultType: "complete" };
    case "subscriptions/listen":
      return listen(message, response);
    default:
      throw new RpcError(-32601, `method not found: ${method}`);
  }
}

serve(Number(process.argv[2]), answer, {
  "GET /state": () => ({ requests, tasks: [...tasks.values()].map(({ tool, task }) => ({ tool, ...task })) }),
  "POST /finish": () => [...tasks.values()].filter(({ finish }) => finish?.(text("finished")) ?? finish).length,
});

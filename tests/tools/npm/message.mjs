// HTTP and JSON-RPC for the MCP servers of the tests that are written by hand. It has no feature of MCP.

import http from "node:http";

export const REVISION = "2026-07-28";
const META = "io.modelcontextprotocol/";
const STATUS = { [-32601]: 404, [-32602]: 400, [-32020]: 400, [-32021]: 400, [-32022]: 400 };

/** An error that the client is answered with. */
export class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** Members of `_meta` without the specification's prefix. */
export const meta = (params, key) => params?._meta?.[META + key];

/** The text that an `Mcp-Name` header carries. */
export function decodeName(value) {
  const wrapped = /^=\?base64\?(.*)\?=$/.exec(value ?? "");
  return wrapped ? Buffer.from(wrapped[1], "base64").toString() : value;
}

/** Refuses a request of 2026-07-28 whose headers and `_meta` are not what the revision requires. */
export function checkHeaders(request, { method, params }, named) {
  const header = (name, expected) => {
    const found = decodeName(request.headers[name]);
    if (found !== expected) throw new RpcError(-32020, `${name} is ${found}, the body says ${expected}`);
  };
  const revision = meta(params, "protocolVersion");
  if (revision === undefined || meta(params, "clientCapabilities") === undefined) {
    throw new RpcError(-32602, "params._meta lacks protocolVersion or clientCapabilities");
  }
  header("mcp-protocol-version", revision);
  if (revision !== REVISION) {
    throw new RpcError(-32022, "unsupported protocol version", { supported: [REVISION], requested: revision });
  }
  header("mcp-method", method);
  const member = named[method];
  if (member && typeof params[member] === "string") header("mcp-name", params[member]);
}

function reply(response, status, body, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

/** Opens an event stream; returns a function that sends a message. */
export function stream(response) {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  return (message) => response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`);
}

/**
 * Serves `answer(message, request, response)` at http://127.0.0.1:PORT/mcp. It returns the result of a request, or
 * `[result, headers]`, or nothing if it answers by itself. `control` has what GET and POST to other paths do.
 */
export function serve(port, answer, control = {}) {
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const act = control[`${request.method} ${request.url}`];
    if (act) return reply(response, 200, act());
    if (request.url !== "/mcp") return reply(response, 404, {});
    if (request.method !== "POST") return reply(response, request.method === "DELETE" ? 204 : 405);
    let id;
    try {
      const message = JSON.parse(Buffer.concat(chunks).toString());
      id = message.id;
      if (id === undefined || message.method === undefined) return reply(response, 202);
      const answered = await answer(message, request, response);
      if (answered === undefined) return;
      const [result, headers] = Array.isArray(answered) ? answered : [answered];
      reply(response, 200, { jsonrpc: "2.0", id, result }, headers);
    } catch (error) {
      const { code = -32603, message, data } = error;
      reply(response, STATUS[code] ?? 200, { jsonrpc: "2.0", id, error: { code, message, data } });
    }
  });
  server.listen(port, "127.0.0.1");
}

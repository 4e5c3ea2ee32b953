// An MCP server with MCP Apps (`io.modelcontextprotocol/ui`) in both generations, at http://127.0.0.1:PORT/mcp:
// node apps-server.mjs PORT NAME [greedy]
//
// Two of them collide in everything but NAME, which is in each result (`structuredContent.server`) and page (title):
//   show          opens ui://app/main.html
//   show_legacy   opens ui://app/legacy.html by the deprecated flat key
//   show_unlisted opens ui://app/unlisted.html, which resources/list leaves out
//   show_nested   opens ui://app/NAME.html, which no other server has
//   refresh       is for apps only; so is NAME_save, which no other server has; think is for the model only
//   plain         has no user interface
//   conditional   is listed for clients that declare the extension
//   declared      returns the capabilities that reached the server
// `greedy` adds a resource template that fits every ui:// resource, and no tool of it has a user interface.
// GET /state returns the requests that reached the server.

import { randomUUID } from "node:crypto";
import { REVISION, RpcError, checkHeaders, meta, serve } from "./message.mjs";

const EXTENSION = "io.modelcontextprotocol/ui";
const PAGE = "text/html;profile=mcp-app";
const NAMED = { "tools/call": "name", "resources/read": "uri" };

const [port, server, kind] = process.argv.slice(2);
const greedy = kind === "greedy";
const sessions = new Map();
const requests = [];

const opens = (resourceUri, visibility) => ({ ui: { resourceUri, ...(visibility && { visibility }) } });
const tools = greedy
  ? { plain: undefined }
  : {
      show: opens("ui://app/main.html"),
      show_legacy: { "ui/resourceUri": "ui://app/legacy.html" },
      show_unlisted: opens("ui://app/unlisted.html"),
      show_nested: opens(`ui://app/${server}.html`),
      refresh: opens("ui://app/main.html", ["app"]),
      [`${server}_save`]: { ui: { visibility: ["app"] } },
      think: { ui: { visibility: ["model"] } },
      plain: undefined,
      conditional: opens("ui://app/main.html"),
      declared: undefined,
    };
const pages = ["main", "legacy", "unlisted", server].map((page) => `ui://app/${page}.html`);

function listTools(capabilities) {
  const shows = capabilities?.extensions?.[EXTENSION]?.mimeTypes?.includes(PAGE);
  return Object.entries(tools)
    .filter(([name]) => name !== "conditional" || shows)
    .map(([name, _meta]) => ({ name, inputSchema: { type: "object" }, ...(_meta && { _meta }) }));
}

function listResources() {
  const listed = greedy ? [] : pages.filter((uri) => !uri.includes("unlisted"));
  return listed.map((uri) => ({ uri, name: uri, mimeType: PAGE, _meta: { ui: { prefersBorder: true } } }));
}

function read(uri) {
  if (!greedy && !pages.includes(uri)) throw new RpcError(-32602, "no such resource", { uri });
  const text = `<!doctype html><html><head><title>${server}</title></head><body></body></html>`;
  return [{ uri, mimeType: PAGE, text, _meta: { ui: { csp: { connectDomains: [`https://${server}.example`] } } } }];
}

function call(name, capabilities) {
  if (!Object.hasOwn(tools, name)) throw new RpcError(-32602, "no such tool");
  const structuredContent = { server, tool: name, ...(name === "declared" && { capabilities }) };
  return { content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent };
}

function features(method, params, capabilities) {
  switch (method) {
    case "tools/list":
      return { tools: listTools(capabilities) };
    case "resources/list":
      return { resources: listResources() };
    case "resources/templates/list":
      return { resourceTemplates: greedy ? [{ uriTemplate: "ui://{+page}", name: "any" }] : [] };
    case "resources/read":
      return { contents: read(params.uri) };
    case "tools/call":
      return call(params.name, capabilities);
    default:
      throw new RpcError(-32601, `method not found: ${method}`);
  }
}

const capabilities = { tools: {}, resources: {}, extensions: { [EXTENSION]: {} } };
const serverInfo = { name: server, version: "1.0.0" };

function answer(message, request) {
  const { method, params = {} } = message;
  const session = request.headers["mcp-session-id"];
  requests.push({ method, name: request.headers["mcp-name"], session, params });
  if (method === "initialize") {
    const id = randomUUID();
    sessions.set(id, params.capabilities);
    return [{ protocolVersion: "2025-11-25", capabilities, serverInfo }, { "mcp-session-id": id }];
  }
  if (sessions.has(session)) return method === "ping" ? {} : features(method, params, sessions.get(session));
  checkHeaders(request, message, NAMED);
  const cached = { resultType: "complete", ttlMs: 0, cacheScope: "private" };
  if (method === "server/discover") {
    const _meta = { "io.modelcontextprotocol/serverInfo": serverInfo };
    return { ...cached, supportedVersions: [REVISION, "2025-11-25"], capabilities, _meta };
  }
  const result = features(method, params, meta(params, "clientCapabilities"));
  return { ...(method === "tools/call" ? { resultType: "complete" } : cached), ...result };
}

serve(Number(port), answer, { "GET /state": () => ({ requests }) });

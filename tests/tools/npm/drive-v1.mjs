// Lists, calls, reads and gets through version 1 of the TypeScript SDK; prints what it saw as one JSON line.
//
// usage: drive-v1.mjs URL legacy PLAN
//
// PLAN is a JSON object; each of tool, arguments, resource, prompt and promptArguments may be left out.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { drive } from './drive.mjs';

const [url, , plan] = process.argv.slice(2);
const client = new Client({ name: 'vmcp-tests', version: '1.0.0' }, { capabilities: {} });
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const seen = await drive(client, JSON.parse(plan));
seen.protocol = transport.protocolVersion;
await transport.terminateSession();
await client.close();
console.log(JSON.stringify(seen));

// Calls tools in order through version 1 of the TypeScript SDK. See calls.mjs.
//
// usage: calls-v1.mjs URL legacy PLAN

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { Calls, options } from './calls.mjs';

const [url, , text] = process.argv.slice(2);
const plan = JSON.parse(text);
const calls = new Calls();
const client = new Client({ name: 'vmcp-tests', version: '1.0.0' }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, ({ params }) => calls.answer(params));
const transport = new StreamableHTTPClientTransport(new URL(url), options(plan));
await client.connect(transport);
await calls.run(client, plan);
await transport.terminateSession();
await client.close();

// The same as calls-v1.mjs through version 2 of the TypeScript SDK.
//
// usage: calls-v2.mjs URL (legacy|modern|auto) PLAN

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Calls, options } from './calls.mjs';
import { modes } from './drive.mjs';

const [url, era, text] = process.argv.slice(2);
const plan = JSON.parse(text);
const calls = new Calls();
const client = new Client(
  { name: 'vmcp-tests', version: '1.0.0' },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: modes[era] } },
);
client.setRequestHandler('elicitation/create', ({ params }) => calls.answer(params));
await client.connect(new StreamableHTTPClientTransport(new URL(url), options(plan)));
await calls.run(client, plan);
await client.close();

// The same as drive-v1.mjs through version 2 of the TypeScript SDK.
//
// usage: drive-v2.mjs URL (legacy|modern|auto) PLAN

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { drive, modes } from './drive.mjs';

const [url, era, plan] = process.argv.slice(2);
const versionNegotiation = { mode: modes[era] };
const client = new Client({ name: 'vmcp-tests', version: '1.0.0' }, { capabilities: {}, versionNegotiation });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const seen = await drive(client, JSON.parse(plan));
seen.protocol = client.getNegotiatedProtocolVersion();
await client.close();
console.log(JSON.stringify(seen));

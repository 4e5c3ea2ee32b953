// The same as load-v1.mjs through version 2 of the TypeScript SDK.
//
// usage: load-v2.mjs URL (legacy|modern) CLIENTS

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { modes } from './drive.mjs';
import { run } from './load.mjs';

const [url, era, count] = process.argv.slice(2);
await run(`typescript-${era}`, era === 'legacy', Number(count), async () => {
  const versionNegotiation = { mode: modes[era] };
  const client = new Client({ name: 'vmcp-tests', version: '1.0.0' }, { versionNegotiation });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
});

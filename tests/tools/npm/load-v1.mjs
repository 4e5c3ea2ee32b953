// Many clients of version 1 of the TypeScript SDK. See load.py.
//
// usage: load-v1.mjs URL legacy CLIENTS

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { run } from './load.mjs';

const [url, , count] = process.argv.slice(2);
await run('typescript-legacy', true, Number(count), async () => {
  const client = new Client({ name: 'vmcp-tests', version: '1.0.0' });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
});

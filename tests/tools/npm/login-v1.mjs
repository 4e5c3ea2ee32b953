// Logs in through version 1 of the TypeScript SDK, from nothing but the URL. See login-client.mjs.
//
// usage: login-v1.mjs URL legacy [refreshes]

import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Keeper, obey } from './login-client.mjs';

const [url, , refreshes] = process.argv.slice(2);
const keeper = new Keeper(UnauthorizedError, refreshes !== undefined);
let client, transport;
const finish = (returned) => transport.finishAuth(returned.get('code'));
await keeper.authorized(async () => {
  client = new Client({ name: 'vmcp-tests', version: '1.0.0' }, { capabilities: {} });
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: keeper });
  await client.connect(transport);
}, finish);
await obey(keeper, client, finish);
await transport.terminateSession();
await client.close();

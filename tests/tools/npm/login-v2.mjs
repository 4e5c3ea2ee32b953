// The same as login-v1.mjs through version 2 of the TypeScript SDK.
//
// usage: login-v2.mjs URL (legacy|modern|auto) [refreshes]

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { modes } from './drive.mjs';
import { Keeper, obey } from './login-client.mjs';

const [url, era, refreshes] = process.argv.slice(2);
const keeper = new Keeper(UnauthorizedError, refreshes !== undefined);
let client, transport;
const finish = (returned) => transport.finishAuth(returned);
await keeper.authorized(async () => {
  const versionNegotiation = { mode: modes[era] };
  client = new Client({ name: 'vmcp-tests', version: '1.0.0' }, { capabilities: {}, versionNegotiation });
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: keeper });
  await client.connect(transport);
}, finish);
await obey(keeper, client, finish);
await client.close();

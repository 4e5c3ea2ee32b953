// The same as watch-v1.mjs through version 2 of the TypeScript SDK.
//
// usage: watch-v2.mjs URL (legacy|modern|auto) RESOURCE

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { modes } from './drive.mjs';
import { tell, untilInputEnds } from './watch.mjs';

const [url, era, resource] = process.argv.slice(2);
const versionNegotiation = { mode: modes[era] };
const client = new Client({ name: 'vmcp-tests', version: '1.0.0' }, { capabilities: {}, versionNegotiation });
for (const method of [
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
  'notifications/tools/list_changed',
]) {
  client.setNotificationHandler(method, (notification) => tell(notification));
}
client.onerror = (error) => tell({ method: 'error', params: { message: String(error) } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await client.listTools();
if (client.getNegotiatedProtocolVersion() < '2026-07-28') {
  await client.subscribeResource({ uri: resource });
  // The SDK opens its stream in the background, and has no word for when it stands.
  await new Promise((resolve) => setTimeout(resolve, 500));
} else {
  await client.listen({
    toolsListChanged: true,
    promptsListChanged: true,
    resourcesListChanged: true,
    resourceSubscriptions: [resource],
  });
}
tell({ method: 'ready' });
await untilInputEnds();
await client.close();

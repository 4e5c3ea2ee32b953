// Prints a line for each change that version 1 of the TypeScript SDK hears of, with the time in milliseconds.
//
// usage: watch-v1.mjs URL legacy RESOURCE
//
// The first line says `ready`. Ends when standard input does.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { tell, untilInputEnds } from './watch.mjs';

const [url, , resource] = process.argv.slice(2);
const client = new Client({ name: 'vmcp-tests', version: '1.0.0' }, { capabilities: {} });
for (const schema of [
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
]) {
  client.setNotificationHandler(schema, (notification) => tell(notification));
}
client.onerror = (error) => tell({ method: 'error', params: { message: String(error) } });
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
await client.listTools();
await client.subscribeResource({ uri: resource });
// The SDK opens its stream in the background, and has no word for when it stands.
await new Promise((resolve) => setTimeout(resolve, 500));
tell({ method: 'ready' });
await untilInputEnds();
await client.close();

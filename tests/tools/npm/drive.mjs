// What both versions of the TypeScript SDK share.

export const modes = { legacy: 'legacy', modern: { pin: '2026-07-28' }, auto: 'auto' };

const text = (blocks) => blocks.map((block) => block.text ?? '').join('');

// The names of everything, then one call, one read and one prompt, as far as the plan has them.
export async function drive(client, plan) {
  const seen = { server: client.getServerVersion()?.name };
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  if (plan.resource !== undefined) {
    seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
    seen.resource = text((await client.readResource({ uri: plan.resource })).contents);
  }
  if (plan.prompt !== undefined) {
    seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
    const result = await client.getPrompt({ name: plan.prompt, arguments: plan.promptArguments ?? {} });
    seen.prompt = text(result.messages.map((message) => message.content));
  }
  if (plan.tool !== undefined) {
    const result = await client.callTool({ name: plan.tool, arguments: plan.arguments ?? {} });
    seen.call = text(result.content);
    seen.failed = result.isError === true;
  }
  return seen;
}

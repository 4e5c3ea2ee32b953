"""Lists, calls, reads and gets through the Python SDK; prints what it saw as one JSON line.

usage: drive.py URL (legacy|modern|auto) PLAN

PLAN is a JSON object; each of tool, arguments, resource, prompt and promptArguments may be left out.
"""

import asyncio
import json
import sys

from mcp import Client

MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}


def text(blocks):
    return "".join(getattr(block, "text", "") for block in blocks)


async def main(url, era, plan):
    seen = {}
    async with Client(url, mode=MODES[era], read_timeout_seconds=20, cache=None) as client:
        seen["protocol"] = client.protocol_version
        seen["server"] = client.server_info.name if client.server_info else None
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        capabilities = client.server_capabilities
        if era == "modern" or capabilities.resources:
            seen["resources"] = [str(resource.uri) for resource in (await client.list_resources()).resources]
        if era == "modern" or capabilities.prompts:
            seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
        if "tool" in plan:
            result = await client.call_tool(plan["tool"], plan.get("arguments", {}))
            seen["call"] = text(result.content)
            seen["failed"] = bool(result.is_error)
        if "resource" in plan:
            seen["resource"] = text((await client.read_resource(plan["resource"])).contents)
        if "prompt" in plan:
            result = await client.get_prompt(plan["prompt"], plan.get("promptArguments", {}))
            seen["prompt"] = text(message.content for message in result.messages)
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))

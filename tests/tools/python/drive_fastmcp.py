"""The same as drive.py through FastMCP's client.

usage: drive_fastmcp.py URL (legacy|modern|auto) PLAN
"""

import asyncio
import json
import sys

from fastmcp import Client

MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}


def text(blocks):
    return "".join(getattr(block, "text", "") for block in blocks)


async def main(url, era, plan):
    seen = {}
    async with Client(url, mode=MODES[era], timeout=20) as client:
        seen["tools"] = [tool.name for tool in await client.list_tools()]
        if "resource" in plan:
            seen["resources"] = [str(resource.uri) for resource in await client.list_resources()]
            seen["resource"] = text(await client.read_resource(plan["resource"]))
        if "prompt" in plan:
            seen["prompts"] = [prompt.name for prompt in await client.list_prompts()]
            result = await client.get_prompt(plan["prompt"], plan.get("promptArguments", {}))
            seen["prompt"] = text(message.content for message in result.messages)
        if "tool" in plan:
            result = await client.call_tool(plan["tool"], plan.get("arguments", {}), raise_on_error=False)
            seen["call"] = text(result.content)
            seen["failed"] = bool(result.is_error)
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))

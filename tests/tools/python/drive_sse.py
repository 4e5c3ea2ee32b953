"""Lists, calls with progress and answers a question over the deprecated HTTP+SSE transport, through the Python SDK.

usage: drive_sse.py URL (legacy|auto) PROGRESS_TOOL PROGRESS_ARGUMENTS ASKING_TOOL ASKING_ARGUMENTS

Arguments are JSON objects. Prints what it saw as one JSON line.
"""

import asyncio
import json
import sys

from mcp import Client, types
from mcp.client.sse import sse_client


def text(result):
    return "".join(getattr(block, "text", "") for block in result.content)


async def main(url, era, counting, counting_arguments, asking, asking_arguments):
    seen = {"asked": [], "progress": []}

    async def answer(_, params):
        seen["asked"].append(params.message)
        return types.ElicitResult(action="accept", content={"username": "ann", "email": "ann@example.com", "value": "ann"})

    async def progressed(progress, total, message):
        seen["progress"].append(progress)

    async with Client(
        sse_client(url), mode=era, elicitation_callback=answer, read_timeout_seconds=20, cache=None
    ) as client:
        seen["protocol"] = client.protocol_version
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        counted = await client.call_tool(counting, json.loads(counting_arguments), progress_callback=progressed)
        seen["counted"] = text(counted)
        seen["answer"] = text(await client.call_tool(asking, json.loads(asking_arguments)))
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:7]))

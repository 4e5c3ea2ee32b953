"""Answers the questions of a tool with a name of its own, several calls at a time, through the Python SDK.

usage: ask.py URL (legacy|modern|auto) TOOL NAME CALLS DELAY_MS

TOOL asks for the message it is called with and answers with what it was told. Prints, for each call, what was asked
and what came back, as one JSON line. Each call gets its own number: an answer that reached another call shows.
"""

import asyncio
import json
import sys

from mcp import Client, types

MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}


async def main(url, era, tool, name, calls, delay):
    asked = []

    async def answer(_, params):
        asked.append(params.message)
        await asyncio.sleep(delay / 1000)
        content = {"username": params.message, "email": f"{name}@example.com"}
        return types.ElicitResult(action="accept", content=content)

    async with Client(url, mode=MODES[era], elicitation_callback=answer, cache=None) as client:

        async def call(number):
            message = f"{name}-{number}"
            result = await client.call_tool(tool, {"message": message})
            return {"message": message, "answer": "".join(getattr(block, "text", "") for block in result.content)}

        answers = await asyncio.gather(*(call(number) for number in range(calls)))
    print(json.dumps({"asked": asked, "answers": answers}))


url, era, tool, name, calls, delay = sys.argv[1:7]
asyncio.run(main(url, era, tool, name, int(calls), int(delay)))

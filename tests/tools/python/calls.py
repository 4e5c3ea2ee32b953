"""Calls tools in order through the Python SDK and answers their questions; prints what came back as one JSON line.

usage: calls.py URL (legacy|modern|auto) PLAN

PLAN is a JSON object: calls is a list of objects with tool, arguments, answers and manual, token a bearer token. answers
has, for the first line of each question's message, the results of elicitation/create in turn. Where manual is true, the
script answers the rounds of 2026-07-28 itself, and asks again after an answer that the server refuses; else the SDK does.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}
INVALID_PARAMS = -32602


class Calls:
    def __init__(self):
        self.answers, self.asked, self.refused = {}, [], []

    def answer(self, message):
        self.asked.append(message)
        given = self.answers[message.split("\n")[0]].pop(0)
        return types.ElicitResult(**given)

    async def rounds(self, client, tool, arguments):
        state = responses = requests = None
        while True:
            try:
                result = await client.session.call_tool(
                    tool, arguments, input_responses=responses, request_state=state, allow_input_required=True
                )
            except MCPError as error:
                if error.code != INVALID_PARAMS or requests is None:
                    raise
                self.refused.append(error.message)
            else:
                if not isinstance(result, types.InputRequiredResult):
                    return result
                requests, state = result.input_requests, result.request_state
            responses = {key: self.answer(request.params.message) for key, request in requests.items()}

    async def call(self, client, tool, arguments, manual):
        try:
            if manual:
                result = await self.rounds(client, tool, arguments)
            else:
                result = await client.call_tool(tool, arguments)
        except MCPError as error:
            return {"error": error.message}
        text = "".join(getattr(block, "text", "") for block in result.content)
        return {"text": text, "structured": result.structured_content, "failed": bool(result.is_error)}


async def main(url, era, plan):
    calls, results = Calls(), []

    async def elicitation(_, params):
        return calls.answer(params.message)

    async with AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {plan['token']}"} if plan.get("token") else None
        http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
        transport = streamable_http_client(url, http_client=http)
        client = Client(
            transport, mode=MODES[era], elicitation_callback=elicitation, read_timeout_seconds=20, cache=None
        )
        client = await stack.enter_async_context(client)
        tools = [tool.name for tool in (await client.list_tools()).tools]
        for wanted in plan["calls"]:
            calls.answers, calls.asked, calls.refused = wanted["answers"], [], []
            result = await calls.call(client, wanted["tool"], wanted["arguments"], wanted["manual"])
            results.append({"asked": calls.asked, "refused": calls.refused, **result})
    print(json.dumps({"tools": tools, "results": results}))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))

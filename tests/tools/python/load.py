"""Calls tools through many clients of the Python SDK until standard input ends; prints what each saw as one JSON line.

usage: load.py URL (legacy|modern) CLIENTS

The first line says `ready`. Each client calls tools in turn, each with a key of its own, as tests/real/scale_out expects,
and repeats no call of a tool that acts.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

MODES = {"legacy": "legacy", "modern": "2026-07-28"}
TOOLS = ["act", "put", "read"]
MARK = "vmcp.dev/backendSession"
PAUSE = 0.05
BROKEN = 599


class Transport(httpx2.AsyncHTTPTransport):
    """Reports a broken connection as a status: an exception ends the SDK's client with all its calls."""

    async def handle_async_request(self, request):
        try:
            response = await super().handle_async_request(request)
            if response.headers.get("content-type", "").startswith("application/json"):
                await response.aread()
            return response
        except httpx2.TransportError:
            # The SDK passes the error of the body on.
            message = {"jsonrpc": "2.0", "id": None, "error": {"code": BROKEN, "message": "broken"}}
            return httpx2.Response(BROKEN, json=message, request=request)


class Load:
    def __init__(self, url, era, name):
        self.url, self.era, self.name = url, era, name
        self.record = {"stateful": era == "legacy", "ended": False, "results": [], "broken": [], "rejected": []}

    async def call(self, client, tool, key):
        try:
            result = await client.call_tool(tool, {"key": key})
        except MCPError as error:
            if error.code == -32600 and "terminated" in error.message:
                self.record["ended"] = True
            data = error.data if isinstance(error.data, dict) else {}
            self.reject(tool, key, error, bool(data.get("retryable")))
            return False
        told = result.structured_content
        if not told or "key" not in told:
            self.record["rejected"].append({"tool": tool, "message": str(result), "retryable": False})
            return False
        marked = MARK in (result.meta or {})
        seen = {"key": key, "returned": told["key"], "session": told["session"], "number": told["number"]}
        self.record["results"].append({**seen, "marked": marked})
        return True

    def reject(self, tool, key, error, retryable):
        # A stream that ends early is a broken connection, too.
        if error.code == BROKEN or error.message.startswith("SSE stream"):
            self.record["broken"].append({"key": key, "tool": tool})
        else:
            message = f"{error.code}: {error.message}"
            self.record["rejected"].append({"tool": tool, "message": message, "retryable": retryable})

    async def run(self, client, over):
        number = 0
        while not over.is_set():
            tool = TOOLS[number % len(TOOLS)]
            backend = "stateful" if number % 2 == 0 else "stateless"
            key = f"{tool}-{self.name}-{number}"
            while not await self.call(client, f"{backend}_{tool}", key) and tool != "act":
                await asyncio.sleep(PAUSE)
            number += 1
            await asyncio.sleep(PAUSE)


async def until_input_ends():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def one(load, ready, over):
    async with httpx2.AsyncClient(transport=Transport(), timeout=30) as http:
        transport = streamable_http_client(load.url, http_client=http)
        async with Client(transport, mode=MODES[load.era], read_timeout_seconds=20, cache=None) as client:
            await client.list_tools()
            ready.release()
            await load.run(client, over)


async def main(url, era, count):
    loads = [Load(url, era, f"python-{os.getpid()}-{number}") for number in range(count)]
    ready, over = asyncio.Semaphore(0), asyncio.Event()
    running = [asyncio.create_task(one(load, ready, over)) for load in loads]
    for _ in loads:
        await ready.acquire()
    print(json.dumps("ready"), flush=True)
    await until_input_ends()
    over.set()
    await asyncio.gather(*running)
    print(json.dumps([load.record for load in loads]))


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

"""Prints a line for each change that the Python SDK hears of, with the time in milliseconds since the epoch.

usage: watch.py URL (legacy|modern|auto) RESOURCE

The first line says `ready`: from then on nothing may be missed. Ends when standard input does.
"""

import asyncio
import json
import sys
import time
import warnings

from mcp import Client, types

# A stateful session has no other way to subscribe.
warnings.simplefilter("ignore")

MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}


def tell(event, **more):
    print(json.dumps({"event": event, "at": time.time() * 1000, **more}), flush=True)


async def on_message(message):
    match message:
        case types.ToolListChangedNotification():
            tell("tools/list_changed")
        case types.PromptListChangedNotification():
            tell("prompts/list_changed")
        case types.ResourceListChangedNotification():
            tell("resources/list_changed")
        case types.ResourceUpdatedNotification():
            tell("resources/updated", uri=str(message.params.uri))
        case Exception():
            tell("error", message=str(message))


async def until_input_ends():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def drain(subscription):
    async for _ in subscription:
        pass
    tell("ended")


async def main(url, era, resource):
    async with Client(url, mode=MODES[era], message_handler=on_message, cache=None) as client:
        await client.list_tools()
        if client.protocol_version < "2026-07-28":
            await client.subscribe_resource(resource)
            # The SDK opens its stream in the background, and has no word for when it stands.
            await asyncio.sleep(0.5)
            tell("ready", protocol=client.protocol_version)
            await until_input_ends()
            return
        wanted = {
            "tools_list_changed": True,
            "prompts_list_changed": True,
            "resources_list_changed": True,
            "resource_subscriptions": [resource],
        }
        async with client.listen(**wanted) as subscription:
            draining = asyncio.create_task(drain(subscription))
            tell("ready", protocol=client.protocol_version)
            await until_input_ends()
            draining.cancel()


asyncio.run(main(*sys.argv[1:4]))

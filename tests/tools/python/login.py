"""Logs in through the Python SDK, from nothing but the URL, and does what it is told, one JSON object a line.

usage: login.py URL (legacy|modern|auto) [refreshes]

{"list": true} and {"call": TOOL} are answered with what was seen and what the client knows of its tokens.
{"authorize": URL} is what somebody else has to do; the next line then has where the browser ended up.
"""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlparse

from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}
REDIRECT = "http://127.0.0.1:9/callback"


def tell(what):
    print(json.dumps(what), flush=True)


async def line():
    return await asyncio.to_thread(sys.stdin.readline)


class Keeper:
    """What keeps the client's registration and tokens."""

    def __init__(self):
        self.tokens = self.client = None
        self.authorizations = self.tokens_saved = 0

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens
        self.tokens_saved += 1

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client

    async def redirect(self, url):
        self.authorizations += 1
        tell({"authorize": url})

    async def returned(self):
        query = parse_qs(urlparse((await line()).strip()).query)
        one = {name: values[0] for name, values in query.items()}
        return AuthorizationCodeResult(code=one.get("code", ""), state=one.get("state"), iss=one.get("iss"))

    def known(self):
        scope = self.tokens.scope if self.tokens else None
        return {"scope": scope, "authorizations": self.authorizations, "tokens": self.tokens_saved}


async def main(url, era, refreshes):
    keeper = Keeper()
    metadata = OAuthClientMetadata(
        client_name="vmcp-tests",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"] if refreshes else ["authorization_code"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(url, metadata, keeper, keeper.redirect, keeper.returned)
    async with create_mcp_http_client(auth=auth) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=MODES[era], read_timeout_seconds=20, cache=None) as client:
            tell({"connected": True, **keeper.known()})
            while said := await line():
                what = json.loads(said)
                try:
                    if "call" in what:
                        result = await client.call_tool(what["call"], {})
                        seen = [getattr(block, "text", "") for block in result.content]
                    else:
                        seen = [tool.name for tool in (await client.list_tools()).tools]
                    tell({"seen": seen, **keeper.known()})
                except Exception as error:
                    tell({"error": repr(error), **keeper.known()})


asyncio.run(main(sys.argv[1], sys.argv[2], len(sys.argv) > 3))

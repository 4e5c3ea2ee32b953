"""Serves two tools over the deprecated HTTP+SSE transport, by FastMCP: one tells of its progress, one asks.

usage: serve_sse.py PORT
"""

import sys

from fastmcp import Context, FastMCP

server = FastMCP("asking")


@server.tool
async def count(context: Context) -> str:
    for step in range(1, 4):
        await context.report_progress(step, 3)
    return "counted"


@server.tool
async def ask(context: Context, message: str) -> str:
    answer = await context.elicit(message, response_type=str)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


server.run(transport="sse", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)

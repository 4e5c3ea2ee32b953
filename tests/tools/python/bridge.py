"""Serves a stdio server over HTTP, by FastMCP's proxy.

usage: bridge.py (http|sse) PORT COMMAND [ARGUMENT...]
"""

import sys

from fastmcp.server import create_proxy

transport, port, command, *arguments = sys.argv[1:]
servers = {"mcpServers": {"bridged": {"command": command, "args": arguments}}}
create_proxy(servers).run(transport=transport, host="127.0.0.1", port=int(port), show_banner=False)

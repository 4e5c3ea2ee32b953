"""Floods a gateway with clients that ask for much and read nothing, and shows that its memory stays within bounds.

    python3 tests/tools/floods_readers.py target/release/vmcp [ROW ...]

A row is CLIENT-BACKEND-ANSWER[-many]: a `session` or `stateless` client, or one of HTTP+`sse`; a backend of `streamable`
HTTP, of HTTP+`sse`, or of the generation without sessions (`newer`); and 4 MB as `json` or as an `event`, or `news`,
notifications of 60 kB without end. 200 connections of one address ask, of 40 addresses with `-many`. `mixed-all-event-many`
has all clients and all backends at a time, on 300 connections. The well-behaved client calls another backend. Prints and
exits as `floods.py` does.
"""

import asyncio
import json
import multiprocessing
import re
import resource
import socket
import sys

from floods_common import FILES, JSON, META, PROXIES, Client, measure

TEXT = "x" * 4_000_000
TOOLS = ["x", "json", "event", "news"]


# The backend: each tool answers as it is called, `x` with little.


def result(tool):
    return {"content": [{"type": "text", "text": TEXT if tool in ("json", "event") else ""}]}


def outcome(message):
    """The result of a request that is no call."""
    method = message["method"]
    if method == "initialize":
        server = {"name": "a", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "server/discover":
        capabilities = {"tools": {}}
        return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities}
    if method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
        return {"resultType": "complete", "tools": tools, "ttlMs": 60_000, "cacheScope": "public"}
    return {} if method == "ping" else None


def answer(message):
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "tools/call":
        return {**answer, "result": {"resultType": "complete", **result(message["params"]["name"])}}
    known = outcome(message)
    if known is None:
        return {**answer, "error": {"code": -32601, "message": "unknown"}}
    return {**answer, "result": known}


NEWS = json.dumps(
    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "x" * 60_000}}
)


class Backend:
    def __init__(self, is_newer):
        self.is_newer = is_newer
        self.streams = []
        self.end = asyncio.Event()

    async def serve(self, reader, writer):
        try:
            while line := await reader.readline():
                method, path = line.decode().split()[:2]
                headers = {}
                while (header := (await reader.readline()).decode().strip()):
                    name, value = header.split(":", 1)
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self.answer(method, path, headers, body, writer)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()

    async def answer(self, method, path, headers, body, writer):
        if method == "GET" and path == "/sse":
            self.begin_events(writer)
            self.streams.append(writer)
            writer.write(self.event(f"/post?{len(self.streams) - 1}", "endpoint"))
            await self.end.wait()
        if method != "POST":
            return self.plain(writer, 405)
        message = json.loads(body)
        if path.startswith("/post?"):
            self.plain(writer, 202)
            if "id" in message and "method" in message:
                stream = self.streams[int(path[6:])]
                await self.say(message, stream)
            return
        known = {"server/discover"} if self.is_newer else {"initialize", "ping"}
        unknown = {"initialize", "server/discover"} - known
        if "id" not in message or message.get("method") in unknown:
            return self.plain(writer, 202 if "id" not in message else 404)
        tool = message["params"].get("name") if message["method"] == "tools/call" else None
        if tool in ("event", "news"):
            self.begin_events(writer)
            await self.say(message, writer)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return
        text = json.dumps(answer(message)).encode()
        session = b"" if self.is_newer else b"Mcp-Session-Id: s\r\n"
        head = f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n".encode()
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + session + b"\r\n" + text)
        await writer.drain()

    async def say(self, message, writer):
        """Answers on a stream."""
        if message["method"] == "tools/call" and message["params"]["name"] == "news":
            while True:
                writer.write(self.event(NEWS))
                await writer.drain()
        writer.write(self.event(json.dumps(answer(message))))
        await writer.drain()

    def begin_events(self, writer):
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )

    def event(self, text, name="message"):
        event = f"event: {name}\ndata: {text}\n\n".encode()
        return f"{len(event):x}\r\n".encode() + event + b"\r\n"

    def plain(self, writer, status):
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())


def serve(listener, is_newer):
    async def run():
        server = await asyncio.start_server(Backend(is_newer).serve, sock=listener)
        await server.serve_forever()

    asyncio.run(run())


# The attackers.


def post(stream, message, headers, address, path="/mcp"):
    body = json.dumps(message)
    head = {"Host": "127.0.0.1", **JSON, "X-Forwarded-For": address, "Content-Length": len(body), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    stream.sendall(f"POST {path} HTTP/1.1\r\n{lines}\r\n{body}".encode())


def connect(port):
    stream = socket.socket()
    # Little of what is not read is in the buffers of the system.
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stream.settimeout(10)
    stream.connect(("127.0.0.1", port))
    return stream


def initialization(version):
    client = {"name": "flood", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def open_session(stream, address):
    post(stream, initialization("2025-11-25"), {}, address)
    answer = b""
    while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
        answer += stream.recv(65536)
    lines = answer.decode().split("\r\n")
    return next(line.split(": ")[1] for line in lines if line.lower().startswith("mcp-session-id"))


def read_endpoint(stream):
    """The URL for messages, which the first event names."""
    text = b""
    while not (found := re.search(rb"data: (\S+)\r?\n", text)):
        text += stream.recv(1024)
    return found[1].decode()


def ask_over_sse(port, call, address):
    """A client of HTTP+SSE: its messages go to a URL, and the answers come on a stream that it does not read."""
    stream = connect(port)
    stream.sendall(f"GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: {address}\r\n\r\n".encode())
    path = read_endpoint(stream)
    for message in (initialization("2024-11-05"), {"jsonrpc": "2.0", "method": "notifications/initialized"}, call):
        messages = connect(port)
        post(messages, message, {}, address, path)
        messages.recv(65536)
        messages.close()
    return stream


def ask(port, client, backend, tool, address):
    name = f"{backend}_{tool}"
    params = {"name": name, "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    if client == "sse":
        return ask_over_sse(port, message, address)
    stream = connect(port)
    if client == "session":
        session = open_session(stream, address)
        headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    else:
        params["_meta"] = {**META, "io.modelcontextprotocol/logLevel": "debug"}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
    post(stream, message, headers, address)
    return stream


def unread_answers(port, connections, asking):
    """Connections that ask and do not read. One that was closed is opened again."""
    streams = {}
    while True:
        for number in range(connections):
            try:
                if number not in streams:
                    streams[number] = asking(port, number)
                # The first byte is left where it is.
                streams[number].setblocking(False)
                if not streams[number].recv(1, socket.MSG_PEEK):
                    raise ConnectionError
            except BlockingIOError:
                pass
            except (OSError, StopIteration):
                if number in streams:
                    streams.pop(number).close()


def flood(program, row):
    client, backend, tool, *many = row.split("-")
    addresses = 40 if many else 1
    is_mixed = client == "mixed"
    clients = CLIENTS if is_mixed else [client]
    backends = BACKENDS if is_mixed else [backend]

    def asking(port, number):
        kind = clients[number % len(clients)]
        name = backends[number // len(clients) % len(backends)]
        return ask(port, kind, name, tool, f"10.0.0.{number % addresses}")

    def serving(backend):
        return lambda listener: serve(listener, backend == "newer")

    attack = lambda port: unread_answers(port, 300 if is_mixed else 200, asking)
    hostile = {name: (serving(name), "sse" if name == "sse" else "streamable-http") for name in backends}
    return measure(row, program, PROXIES, attack, lambda port: [Client(port)], hostile=hostile)


CLIENTS = ["session", "stateless", "sse"]
BACKENDS = ["streamable", "sse", "newer"]
ROWS = [
    f"{client}-{backend}-{tool}"
    for client in CLIENTS
    for backend in BACKENDS
    for tool in ("json", "event", "news")
    if (backend, tool) != ("sse", "json")
] + ["session-streamable-event-many", "stateless-sse-event-many", "mixed-all-event-many"]


def main():
    if len(sys.argv) < 2 or any(row not in ROWS for row in sys.argv[2:]):
        raise SystemExit(__doc__)
    multiprocessing.set_start_method("fork")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard) if hard > 0 else FILES, hard))
    outcomes = [flood(sys.argv[1], row) for row in sys.argv[2:] or ROWS]
    raise SystemExit(0 if all(outcomes) else 1)


if __name__ == "__main__":
    main()

"""Floods a gateway, and shows that its memory stays within bounds while other clients are served.

    python3 tests/tools/floods.py target/release/vmcp [bytes|bytes-many|sessions|connections|probes ...]

starts the gateway over a backend of its own, once for each attack, and prints a row for each: resident memory before and at its
most against what is allowed, the 99th percentile of a well-behaved client's calls before and under attack, and how many
of its requests were refused. Exits with 1 where a bound does not hold. Needs Linux, Python 3.10 and 10,000 open files.

The attackers run at the lowest priority: they stand for other machines, which take no processor of this one.
"""

import http.client
import http.server
import json
import multiprocessing
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20

# What the process may take besides its budget.
SPARE = 64 * MIB

BUDGET = 64 * MIB
SECONDS = 8
FILES = 10_000

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "floods", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


# The backend: stateful MCP with one tool, which gives an empty result.


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        results = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "a", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": []},
        }
        if "id" not in message:
            return self.answer(202, b"")
        if message["method"] not in results and message["method"] != "ping":
            error = {"code": -32601, "message": "unknown"}
            return self.answer(404, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
        result = results.get(message["method"], {})
        self.answer(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def do_GET(self):
        self.answer(405, b"")

    def do_DELETE(self):
        self.answer(200, b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.command == "POST" and "mcp-session-id" not in self.headers:
            self.send_header("Mcp-Session-Id", "s")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve_backend(listener):
    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()


# The gateway.


class Gateway:
    def __init__(self, program, flags):
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.backend = multiprocessing.Process(target=serve_backend, args=(listener,), daemon=True)
        self.backend.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "vmcp.yaml")
        with open(path, "w") as file:
            file.write(
                "name: floods\nincomingAuth: {type: anonymous}\n"
                f"backends: [{{name: a, url: '{url}', transport: streamable-http}}]\n"
            )
        command = [program, "serve", "--port", "0", "--config", path, *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise SystemExit("the gateway did not start")
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()
        while status(self.port, "/readyz") != 200:
            time.sleep(0.05)

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) * 1024

    def sessions(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/status")
        return json.loads(connection.getresponse().read())["sessions"]

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.backend.kill()
        self.folder.cleanup()


def status(port, path):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0


# The well-behaved client.


class Client:
    """Calls a tool again and again, from an address of its own."""

    def __init__(self, port, padding=0):
        self.port, self.padding, self.connection = port, padding, None
        self.times, self.refused = [], 0
        self.session = None

    def post(self, message, headers):
        """The status and headers of the answer. As clients do, tries a connection once more that was closed while idle."""
        body = json.dumps(message)
        headers = {**JSON, "X-Forwarded-For": "10.99.0.1", **headers}
        for last in (False, True):
            new = self.connection is None
            if new:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            try:
                self.connection.request("POST", "/mcp", body, headers)
                response = self.connection.getresponse()
                response.read()
                if response.will_close:
                    self.connection.close()
                    self.connection = None
                return response.status, response.headers
            except (OSError, http.client.HTTPException):
                self.connection.close()
                self.connection = None
                if new or last:
                    return 0, {}

    def initialize(self):
        client = {"name": "floods", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        _, headers = self.post(message, {})
        self.session = headers["mcp-session-id"]

    def call(self):
        params = {"name": "a_x", "arguments": {"pad": "x" * self.padding}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        if self.session:
            headers = {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"}
        else:
            params["_meta"] = META
            headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "a_x"}
        begun = time.perf_counter()
        code, _ = self.post(message, headers)
        self.times.append(time.perf_counter() - begun)
        self.refused += code != 200

    def run(self, seconds, watch=lambda: None):
        self.times, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            self.call()
            watch()
            time.sleep(0.01)
        self.times.sort()
        return self.times[int(len(self.times) * 0.99)]


# Attacks. Each runs in a process of its own until it is killed.


def head(address, length):
    return (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"X-Forwarded-For: {address}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def unfinished_bodies(port, addresses):
    """400 bodies of 7 MB that never end; one that was refused is sent again."""
    piece, open_bodies = b" " * 65536, {}
    while True:
        for number in range(400):
            if number not in open_bodies:
                stream = socket.create_connection(("127.0.0.1", port))
                stream.sendall(head(f"10.0.0.{number % addresses}", 7_000_000))
                stream.setblocking(False)
                open_bodies[number] = (stream, 0)
            stream, sent = open_bodies[number]
            try:
                if sent < 6_900_000:
                    open_bodies[number] = (stream, sent + stream.send(piece))
                if not stream.recv(4096, socket.MSG_PEEK):
                    raise ConnectionError
                raise ConnectionResetError  # Answered, thus refused.
            except BlockingIOError:
                pass
            except OSError:
                stream.close()
                del open_bodies[number]
        time.sleep(0.01)


def sessions(port):
    """Opens sessions of one address without end."""
    client = {"name": "flood", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while True:
        try:
            connection.request("POST", "/mcp", body, {**JSON, "X-Forwarded-For": "10.0.0.1"})
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()


def silent_connections(port):
    """Opens connections without end, and sends half a head on every other one."""
    streams = []
    while True:
        try:
            stream = socket.create_connection(("127.0.0.1", port), timeout=5)
            if len(streams) % 2:
                stream.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            streams.append(stream)
        except OSError:
            pass
        if len(streams) > 6000:
            streams.pop(0).close()
        if len(streams) % 10 == 0:
            time.sleep(0.01)


def busy_connections(port):
    """Takes all connections with requests whose bodies do not come."""
    streams = []
    while True:
        try:
            stream = socket.create_connection(("127.0.0.1", port), timeout=5)
            stream.sendall(head("10.0.0.1", 10))
            streams.append(stream)
        except OSError:
            pass
        if len(streams) > 2000:
            streams.pop(0).close()
        if len(streams) % 10 == 0:
            time.sleep(0.01)


def begin(attack):
    os.nice(19)
    attack()


# Each attack with the gateway's flags and the well-behaved clients.


def measure(name, program, flags, attack, clients, check=lambda gateway: []):
    gateway = Gateway(program, [*flags, "--max-buffered-bytes", str(BUDGET)])
    faults = []
    try:
        clients = clients(gateway.port)
        for client in clients:
            client.run(1)
        quiet = [client.run(3) for client in clients]
        idle = peak = gateway.memory()

        def watch():
            nonlocal peak
            peak = max(peak, gateway.memory())

        attacker = multiprocessing.Process(target=begin, args=(lambda: attack(gateway.port),), daemon=True)
        attacker.start()
        time.sleep(1)
        under = [client.run(SECONDS / len(clients), watch) for client in clients]
        faults += check(gateway)
        attacker.kill()
        refused = sum(client.refused for client in clients)
    finally:
        gateway.stop()
    most = idle + BUDGET + SPARE
    if peak > most:
        faults.append("memory")
    if any(after > 5 * before for before, after in zip(quiet, under)):
        faults.append("p99")
    if refused:
        faults.append("others were refused")
    milliseconds = " ".join(f"{a * 1e3:.1f}/{b * 1e3:.1f}" for a, b in zip(quiet, under))
    print(
        f"{name:12} memory {idle / MIB:.0f}/{peak / MIB:.0f} MiB (at most {most / MIB:.0f})  "
        f"p99 quiet/attack {milliseconds} ms  refused {refused}  {', '.join(faults) or 'ok'}",
        flush=True,
    )
    return not faults


PROXIES = ["--trusted-proxies", "1"]


def flood_bytes(program):
    """One address: others are served, with large messages too."""
    attack = lambda port: unfinished_bodies(port, 1)
    clients = lambda port: [Client(port), Client(port, 500_000)]
    return measure("bytes", program, PROXIES, attack, clients)


def flood_bytes_many(program):
    """40 addresses, which take the whole budget: small messages of others are served."""
    attack = lambda port: unfinished_bodies(port, 40)
    return measure("bytes-many", program, PROXIES, attack, lambda port: [Client(port)])


def flood_sessions(program):
    """One address opens sessions: the session of another goes on."""

    def clients(port):
        client = Client(port)
        client.initialize()
        return [client]

    def check(gateway):
        count = gateway.sessions()
        return [] if count <= 1001 else [f"{count} sessions"]

    return measure("sessions", program, PROXIES, sessions, clients, check)


def flood_connections(program):
    """More connections than there may be, which ask nothing: each new one is served."""

    class Connecting(Client):
        def call(self):
            if self.connection:
                self.connection.close()
                self.connection = None
            super().call()

    clients = lambda port: [Client(port), Connecting(port)]
    return measure("connections", program, [], silent_connections, clients)


def flood_probes(program):
    """All connections are busy: probes are answered."""

    class Probing(Client):
        def call(self):
            for path in ("/livez", "/readyz"):
                begun = time.perf_counter()
                self.refused += status(self.port, path) != 200
                self.times.append(time.perf_counter() - begun)

    flags = ["--max-connections", "500"]
    return measure("probes", program, flags, busy_connections, lambda port: [Probing(port)])


ATTACKS = {
    "bytes": flood_bytes,
    "bytes-many": flood_bytes_many,
    "sessions": flood_sessions,
    "connections": flood_connections,
    "probes": flood_probes,
}


def main():
    if len(sys.argv) < 2 or any(name not in ATTACKS for name in sys.argv[2:]):
        raise SystemExit(__doc__)
    multiprocessing.set_start_method("fork")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard) if hard > 0 else FILES, hard))
    outcomes = [ATTACKS[name](sys.argv[1]) for name in sys.argv[2:] or ATTACKS]
    raise SystemExit(0 if all(outcomes) else 1)


if __name__ == "__main__":
    main()

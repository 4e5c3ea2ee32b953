"""A gateway under attack: its backends, well-behaved clients, and what they measure."""

import http.client
import http.server
import json
import multiprocessing
import os
import re
import socket
import subprocess
import tempfile
import threading
import time

MIB = 1 << 20

# What the process may take besides its budget.
SPARE = 64 * MIB

BUDGET = 64 * MIB
SECONDS = 8
FILES = 10_000
PROXIES = ["--trusted-proxies", "1"]

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
    """A gateway over the backend `a`, and over hostile ones: for each name the function that serves it, and its transport."""

    def __init__(self, program, flags, hostile={}):
        self.backends = []
        backends = [self.start("a", serve_backend, "streamable-http")]
        backends += [self.start(name, serve, transport) for name, (serve, transport) in hostile.items()]
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "vmcp.yaml")
        with open(path, "w") as file:
            file.write(
                f"name: floods\nincomingAuth: {{type: anonymous}}\nbackends: [{', '.join(backends)}]\n"
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

    def start(self, name, serve, transport):
        """Starts a backend, and gives its configuration."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        backend = multiprocessing.Process(target=serve, args=(listener,), daemon=True)
        backend.start()
        self.backends.append(backend)
        path = "sse" if transport == "sse" else "mcp"
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/{path}"
        return f"{{name: {name}, url: '{url}', transport: {transport}}}"

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
        for backend in self.backends:
            backend.kill()
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


# The measurement.


def begin(attack):
    os.nice(19)
    attack()




def measure(name, program, flags, attack, clients, check=lambda gateway: [], hostile={}):
    gateway = Gateway(program, [*flags, "--max-buffered-bytes", str(BUDGET)], hostile)
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
        f"{name:22} memory {idle / MIB:.0f}/{peak / MIB:.0f} MiB (at most {most / MIB:.0f})  "
        f"p99 quiet/attack {milliseconds} ms  refused {refused}  {', '.join(faults) or 'ok'}",
        flush=True,
    )
    return not faults



#!/usr/bin/env python3
"""Attacks a vmcp from behind: a hostile backend beside a good one.

    floods_backend.py PATH_TO_VMCP [ATTACK ...]

Attacks: pages, storm, templates, vanish (default: all). Each starts a gateway, lets a client of the good backend call for a
while, attacks, and prints

- resident memory of the gateway before and at most during the attack, and the bound on the difference;
- the 99th percentile of the good client's calls, quiet and under attack, and its calls that failed;
- what the attack itself is bounded by.

Ends with 1 where a bound does not hold. Needs Python 3.10 and Linux. Times are only worth something on an idle machine
with a release build; everything else holds for any build.
"""

import http.client
import http.server
import json
import multiprocessing
import os
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
BUDGET = 64 * MIB         # messages that are held, pages of lists among them
DETACHED = 32 * MIB       # what waits for clients that are away
SLACK = 64 * MIB          # what a flood may take besides
P99_FACTOR = 5
P99_FLOOR = 0.004         # seconds: a quiet 99th percentile below this counts as this
QUIET = 5.0               # seconds
ATTACK = float(os.environ.get("FLOOD_SECONDS", "20"))

STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "flood", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


# Backends ------------------------------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass

    def send_json(self, message, headers=()):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_empty(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def begin_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True

    def send_chunk(self, data):
        self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")

    def do_GET(self):
        if self.path == "/stats":
            return self.send_json(dict(self.server.counts))
        self.server.hostile.listen(self)

    def do_DELETE(self):
        self.send_empty(204)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message.get("method", "")
        self.server.count(method)
        if "id" not in message:
            return self.send_empty(202)
        result = self.server.hostile.result(self, method, message)
        if result is None:
            return None
        if isinstance(result, bytes):
            body = b'{"jsonrpc":"2.0","id":' + json.dumps(message["id"]).encode()
            return self.send_json(body + b',"result":' + result + b"}")
        headers = [("Mcp-Session-Id", "s")] if method == "initialize" else []
        if "error" in result:
            return self.send_json({"jsonrpc": "2.0", "id": message["id"], **result}, headers)
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
        self.send_json({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, hostile):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hostile = hostile
        self.counts = {}
        self.lock = threading.Lock()

    def count(self, what, number=1):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + number

    def handle_error(self, *_):
        pass


class Good:
    """Stateless, with one tool that answers at once."""

    stateful = False
    tools = [{"name": "t", "inputSchema": {"type": "object"}}]

    def result(self, handler, method, message):
        if self.stateful and method == "initialize":
            capabilities = {"tools": {"listChanged": True}, "resources": {}}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": "flood", "version": "1"}}
        if not self.stateful and method == "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "resources": {}}}
        lists = {"tools/list": ("tools", self.tools), "prompts/list": ("prompts", []),
                 "resources/list": ("resources", []),
                 "resources/templates/list": ("resourceTemplates", self.templates())}
        if method in lists:
            member, items = lists[method]
            return {member: items}
        if method == "tools/call":
            return self.call(handler, message)
        if method == "ping":
            return {}
        return {"error": {"code": -32601, "message": "method not found"}}

    def templates(self):
        return []

    def call(self, handler, message):
        return {"content": [{"type": "text", "text": "done"}]}

    def listen(self, handler):
        handler.send_empty(405)


class Pages(Good):
    """Pages of 12 MB without end."""

    page = None
    is_last = False

    def result(self, handler, method, message):
        if method != "tools/list":
            return super().result(handler, method, message)
        if Pages.page is None:
            tool = {"name": "t%d", "description": "x" * (12 * 1000 * 1000), "inputSchema": {"type": "object"}}
            Pages.page = json.dumps(tool).encode()
        number = handler.server.counts["tools/list"]
        tool = Pages.page.replace(b"t%d", b"t%d" % number, 1)
        cursor = b"" if self.is_last else b'"nextCursor":"c%d",' % number
        return b'{"tools":[' + tool + b"]," + cursor + b'"resultType":"complete","ttlMs":0,"cacheScope":"private"}'


class Storm(Pages):
    """One page of 12 MB, in sessions, and says all the time that its lists have changed."""

    stateful = True
    is_last = True

    def listen(self, handler):
        handler.begin_events()
        kinds = ["tools", "prompts", "resources"]
        while True:
            for kind in kinds:
                change = {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"}
                handler.send_chunk(b"data: " + json.dumps(change).encode() + b"\n\n")
                handler.server.count("changes")
            time.sleep(0.001)


class Templates(Good):
    """Templates that take long to tell from what they do not match."""

    def templates(self):
        many = "".join("{v%d}a" % n for n in range(60))
        return [{"uriTemplate": f"x://{'a' * (n % 7)}{many}b{n}", "name": f"r{n}"} for n in range(2000)]


class Vanish(Good):
    """Answers calls with streams that never end, a megabyte at a time."""

    stateful = True

    def call(self, handler, message):
        handler.begin_events()
        count = handler.server.count
        count("open")
        try:
            self.stream(handler, message)
        except OSError:
            pass
        finally:
            count("open", -1)
        return None

    def stream(self, handler, message):
        progress = {"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": message["id"], "progress": 1}}
        progress = b"data: " + json.dumps(progress).encode() + b"\n\n"
        question = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                    "params": {"message": "x" * MIB, "requestedSchema": {"type": "object", "properties": {}}}}
        handler.send_chunk(progress)
        time.sleep(1)
        kind = message["params"]["arguments"].get("kind", 0)
        part = [b"data: " + json.dumps(question).encode() + b"\n\n",
                b"x" * MIB, b"data: " + progress[6:-3] + b" " * MIB + b"}\n\n"][kind]
        if kind == 1:
            handler.send_chunk(b"data: ")
        while True:
            handler.send_chunk(part)
            handler.send_chunk(b": comment\n\n" if kind != 1 else b"x")
            time.sleep(0.2)


def serve(hostile, port):
    server = Server(hostile())
    port.send(server.server_address[1])
    server.serve_forever()


def start_backend(hostile):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(hostile, theirs), daemon=True)
    process.start()
    return process, ours.recv()


# The gateway and its clients -----------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    def __init__(self, program, backends):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "vmcp.yaml")
        names = ",".join(f'{{name: {name}, url: "http://127.0.0.1:{port}/mcp", transport: streamable-http}}'
                         for name, port in backends)
        with open(path, "w") as file:
            file.write(f"name: flood\nincomingAuth: {{type: anonymous}}\nbackends: [{names}]\n"
                       "operational: {failureHandling: {partialFailureMode: best_effort}}\n")
        self.port = free_port()
        arguments = [program, "serve", "--config", path, "--port", str(self.port), "--log-format", "json",
                     "--max-buffered-bytes", str(BUDGET)]
        log = open(os.path.join(self.folder.name, "log"), "wb")
        self.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            try:
                if get(self.port, "/readyz")[0] == 200:
                    break
            except OSError:
                pass
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit(f"the gateway does not start: {open(log.name).read()[-2000:]}")
            time.sleep(0.1)

    def rss(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


class Watch(threading.Thread):
    """The most memory that a gateway has."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.gateway, self.peak, self.ended = gateway, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.02):
            try:
                self.peak = max(self.peak, self.gateway.rss())
            except OSError:
                return

    def stop(self):
        self.ended.set()
        self.join()
        return self.peak


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


def post(connection, message, headers=()):
    fixed = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request("POST", "/mcp", json.dumps(message), {**fixed, **dict(headers)})
    return connection.getresponse()


def stateless(connection, method, params, name):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": STATELESS}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
    return post(connection, message, headers)


def well_behaved(port, seconds, results):
    """Calls the good backend one call after another; the times and the failures go back."""
    times, failures = [], 0
    deadline = time.monotonic() + seconds
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.monotonic() < deadline:
        began = time.monotonic()
        try:
            response = stateless(connection, "tools/call", {"name": "good_t", "arguments": {}}, "good_t")
            answered = response.status == 200 and b'"done"' in response.read()
        except OSError:
            connection.close()
            answered = False
        failures += not answered
        times.append(time.monotonic() - began)
        time.sleep(0.005)
    times.sort()
    results.send((times[int(len(times) * 0.99) - 1] if times else float("inf"), len(times), failures))


def begin_well_behaved(port, seconds):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=well_behaved, args=(port, seconds, theirs), daemon=True)
    process.start()
    return ours


# Attacks -------------------------------------------------------------------------------------------------------------


class Report:
    def __init__(self):
        self.failed = []

    def check(self, attack, what, value, holds, bound):
        mark = "ok  " if holds else "FAIL"
        print(f"  {mark} {what}: {value} (bound: {bound})", flush=True)
        if not holds:
            self.failed.append(f"{attack}: {what}")


def mib(size):
    return f"{size / MIB:.0f} MiB"


def run(report, program, name, hostile, budget, attack, before=None):
    """Measures quiet, attacks, and checks what holds for every attack."""
    print(f"{name}: {hostile.__doc__}", flush=True)
    good, good_port = start_backend(Good)
    bad, bad_port = start_backend(hostile)
    # A gateway with the good backend alone tells what is quiet.
    gateway = Gateway(program, [("good", good_port)])
    try:
        time.sleep(1)
        quiet, calls, failures = begin_well_behaved(gateway.port, QUIET).recv()
        idle = gateway.rss()
    finally:
        gateway.stop()
    report.check(name, "calls that failed while quiet", failures, failures == 0 and calls > 0, 0)
    gateway = Gateway(program, [("good", good_port), ("bad", bad_port)])
    watch = Watch(gateway)
    try:
        if before:
            before(gateway)
        measuring = begin_well_behaved(gateway.port, ATTACK)
        more = attack(gateway, bad_port, time.monotonic() + ATTACK)
        p99, calls, failures = measuring.recv()
        peak = watch.stop()
        bound = budget + SLACK
        report.check(name, "memory above idle", f"{mib(peak - idle)}, idle {mib(idle)}, peak {mib(peak)}",
                     peak - idle <= bound, mib(bound))
        most = P99_FACTOR * max(quiet, P99_FLOOR)
        report.check(name, "99th percentile of the good client",
                     f"{p99 * 1000:.1f} ms, quiet {quiet * 1000:.1f} ms, {calls} calls", p99 <= most, f"{most * 1000:.1f} ms")
        report.check(name, "its calls that failed", failures, failures == 0, 0)
        for what, value, holds, bound in more:
            report.check(name, what, value, holds, bound)
    finally:
        gateway.stop()
        for process in (good, bad):
            process.terminate()
            process.join()


def stats(port):
    return json.loads(get(port, "/stats")[1])


def wait(_gateway, bad_port, deadline):
    time.sleep(max(0.0, deadline - time.monotonic()))
    fetched = stats(bad_port).get("tools/list", 0)
    # At most 32 fetches in 32 seconds, of at most three pages each: the third one is too much.
    bound = 3 * (32 + int(ATTACK))
    return [("pages that were fetched", fetched, 0 < fetched <= bound, bound)]


def storm(gateway, bad_port, deadline):
    [pages] = wait(gateway, bad_port, deadline)
    changes = stats(bad_port).get("changes", 0)
    return [pages, ("changes that were told", changes, changes > 1000, "more than 1000")]


def read_templates(gateway, _bad_port, deadline):
    slowest, count = 0.0, 0
    uri = "x://" + "a" * 2000
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    while time.monotonic() < deadline:
        began = time.monotonic()
        stateless(connection, "resources/read", {"uri": uri}, uri).read()
        slowest, count = max(slowest, time.monotonic() - began), count + 1
    offered = json.loads(get(gateway.port, "/status")[1])["offered"]["resource_templates"]
    return [("slowest look-up", f"{slowest:.3f} s of {count}", 0 < slowest <= 2, "2 s"),
            ("templates that are kept", offered, 0 < offered <= 1000, "1000")]


def session(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
             "clientInfo": {"name": "flood", "version": "1"}}
    response = post(connection, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    response.read()
    return connection, response.getheader("Mcp-Session-Id")


CALLS = 300


def vanish(gateway, bad_port, deadline):
    """Calls in ten sessions, whose clients go as soon as they have seen the first event."""
    for number in range(10):
        connection, identifier = session(gateway.port)
        for call in range(CALLS // 10):
            message = {"jsonrpc": "2.0", "id": call + 1, "method": "tools/call",
                       "params": {"name": "bad_t", "arguments": {"kind": call % 3},
                                  "_meta": {"progressToken": call + 1}}}
            calling = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
            response = post(calling, message, {"Mcp-Session-Id": identifier})
            response.read(1)
            calling.sock.close()
            response.close()
        connection.close()
    began = stats(bad_port)
    held = 0
    while time.monotonic() < deadline:
        status = json.loads(get(gateway.port, "/status")[1])
        held = max(held, status.get("cache_entries", {}).get("detached_bytes", 0))
        time.sleep(0.2)
    counts, status = stats(bad_port), json.loads(get(gateway.port, "/status")[1])
    calls, cancelled = counts.get("tools/call", 0), counts.get("notifications/cancelled", 0)
    ended = status.get("detached_calls_ended", 0)
    return [
        ("calls whose clients vanished", calls, calls == CALLS, CALLS),
        ("streams that were open at most", max(began.get("open", 0), counts.get("open", 0)), True, "-"),
        ("held for clients that are away", mib(held), held <= DETACHED, mib(DETACHED)),
        ("calls that were ended", ended, ended >= CALLS // 3, f"at least {CALLS // 3}"),
        ("cancellations", cancelled, cancelled <= calls, f"at most {calls}, one for a call"),
    ]


ATTACKS = {
    "pages": (Pages, BUDGET, wait),
    "storm": (Storm, BUDGET, storm),
    "templates": (Templates, BUDGET, read_templates),
    "vanish": (Vanish, DETACHED, vanish),
}


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or any(name not in ATTACKS for name in sys.argv[2:]):
        sys.exit(f"usage: {sys.argv[0]} PATH_TO_VMCP [{'|'.join(ATTACKS)} ...]")
    multiprocessing.set_start_method("fork")
    report = Report()
    for name in sys.argv[2:] or ATTACKS:
        run(report, sys.argv[1], name, *ATTACKS[name])
    if report.failed:
        sys.exit("does not hold: " + "; ".join(report.failed))


if __name__ == "__main__":
    main()

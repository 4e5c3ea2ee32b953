"""Floods a gateway, and shows that its memory stays within bounds while other clients are served.

    python3 tests/tools/floods.py target/release/vmcp [bytes|bytes-many|sessions|connections|probes ...]

starts the gateway over a backend of its own, once for each attack, and prints a row for each: resident memory before and at its
most against what is allowed, the 99th percentile of a well-behaved client's calls before and under attack, and how many
of its requests were refused. Exits with 1 where a bound does not hold. Needs Linux, Python 3.10 and 10,000 open files.

The attackers run at the lowest priority: they stand for other machines, which take no processor of this one.
"""

import http.client
import json
import multiprocessing
import resource
import socket
import sys
import time

from floods_common import FILES, JSON, PROXIES, Client, measure, status


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


# Each attack with the gateway's flags and the well-behaved clients.


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

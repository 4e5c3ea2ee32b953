"""Measures the memory of sessions that clients open and leave.

    cargo build --release -p vmcp
    python3 tests/tools/session_memory.py target/release/vmcp [SESSIONS]

opens 100,000 sessions, or as many as it is told, first without and then with `--seal-key`, and prints for each the sessions that
the gateway holds and the resident memory of one. Exits with 1 if the gateway does not hold all, or if one takes more than 1 KiB.
With few sessions, the figure is that of the allocator, not of a session. Needs Linux and Python 3.10.
"""

import multiprocessing
import os
import secrets
import sys
import tempfile
import threading

from floods_common import Client, Gateway

SESSIONS = 100_000
MOST = 1024

# Requests at a time, and sessions that are opened before the measurement begins, so that buffers and caches exist.
CLIENTS = 8
WARM_UP = 200


def open_sessions(port, count):
    """Opens sessions through several connections at a time, and leaves them."""

    def run(share):
        client = Client(port)
        for _ in range(share):
            client.initialize()

    shares = [count // CLIENTS + (number < count % CLIENTS) for number in range(CLIENTS)]
    threads = [threading.Thread(target=run, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(name, program, flags, count):
    # One address may hold a share of all.
    gateway = Gateway(program, ["--max-sessions", str(10 * count + 10 * WARM_UP), *flags])
    try:
        open_sessions(gateway.port, WARM_UP)
        idle, held = gateway.memory(), gateway.sessions()
        open_sessions(gateway.port, count)
        memory, held = gateway.memory() - idle, gateway.sessions() - held
    finally:
        gateway.stop()
    each = memory / max(held, 1)
    is_fine = held == count and each <= MOST
    print(f"{name:14} {held} of {count} sessions held, {each / 1024:.2f} KiB each", flush=True)
    return is_fine


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    multiprocessing.set_start_method("fork")
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else SESSIONS
    with tempfile.TemporaryDirectory() as folder:
        key = os.path.join(folder, "key")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        outcomes = [
            measure("without a ring", program, [], count),
            measure("with a ring", program, ["--seal-key", key], count),
        ]
    raise SystemExit(0 if all(outcomes) else 1)


if __name__ == "__main__":
    main()

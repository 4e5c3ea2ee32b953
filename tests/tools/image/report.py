"""Prints the compressed sizes of the images, and the time from the start of the server's image to its first response of
`initialize`, against a bare reverse proxy in front of the same server.

    report.py IMAGES PROXY BACKEND

IMAGES has the OCI layouts `vmcp` and `vmcp-operator`; PROXY and BACKEND are the programs bench-proxy and bench-backend.
"""

import json
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

RUNS = 20
HERE = pathlib.Path(__file__).parent
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "report", "version": "1"},
        },
    }
).encode()


def free_port():
    """Returns an unused port of the loopback interface."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def initialize(port):
    """Returns True if the server responds to `initialize`."""
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", data=INITIALIZE, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return b'"result"' in response.read()
    except (urllib.error.URLError, ConnectionError):
        return False


def wait(port, process):
    """Waits for the first response."""
    while not initialize(port):
        if process.poll() is not None:
            sys.exit(f"{process.args} ended with {process.returncode}")
        time.sleep(0.0005)


def start(layout, folder, arguments, port):
    """Starts a container, and returns the milliseconds from the start of its program to the first response."""
    root = folder / "root"
    command = [sys.executable, HERE / "container.py", layout, root, "--print-start", "--volume", f"{folder}/config:/etc/vmcp"]
    process = subprocess.Popen([*command, "--", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    started = int(process.stdout.readline())
    try:
        wait(port, process)
        return (time.monotonic_ns() - started) / 1e6
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(root)


def times(layout, folder, arguments):
    """Returns the times of several starts."""
    return [start(layout, folder, arguments(port), port) for port in (free_port() for _ in range(RUNS))]


def image(program, output):
    """Builds an image of a program with its libraries."""
    command = [sys.executable, HERE / "image.py", "build", "--program", program, "--title", pathlib.Path(program).name]
    command += ["--version", "0", "--libraries", "--level", "1", "--output", output]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main(images, proxy, backend):
    """Measures and prints."""
    images = pathlib.Path(images)
    for name in ("vmcp", "vmcp-operator"):
        subprocess.run([sys.executable, HERE / "image.py", "show", images / name], check=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        image(proxy, folder / "proxy")
        port = free_port()
        listening = subprocess.Popen([backend, "--listen", f"127.0.0.1:{port}", "--tools", "10"])
        try:
            wait(port, listening)
            url = f"http://127.0.0.1:{port}/mcp"
            config = folder / "config" / "config.yaml"
            config.parent.mkdir()
            backends = [{"name": "backend", "url": url, "transport": "streamable-http"}]
            config.write_text(json.dumps({"name": "vmcp", "incomingAuth": {"type": "anonymous"}, "backends": backends}))
            serve = lambda own: ["serve", "--config=/etc/vmcp/config.yaml", f"--port={own}"]
            forward = lambda own: ["--listen", f"127.0.0.1:{own}", "--to", f"127.0.0.1:{port}"]
            measured = statistics.median(times(images / "vmcp", folder, serve))
            bare = statistics.median(times(folder / "proxy", folder, forward))
        finally:
            listening.terminate()
            listening.wait()
    print(f"start to the first response of initialize: {measured:.1f} ms, bare proxy {bare:.1f} ms, ratio {measured / bare:.1f}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

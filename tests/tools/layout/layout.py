"""Writes services/server/layout.txt: the functions that a gateway runs, those first that every gateway runs.

A process keeps in memory what it touches of its program, in windows of 64 KiB. A tenth of the code is run,
scattered over all of it by the linker; side by side it takes a third of the memory, and calls meet fewer pages.

    cargo build --release -p vmcp-bench
    cargo build --release -p vmcp
    python3 tests/tools/layout/layout.py target/release

runs every row of the benchmark with a few requests, the gateways under valgrind (Debian: valgrind), which takes about
a minute. Two builds, since one of both would have dependencies with the features of both, and with that other hashes than
the program that users build. Hashes of one build are written only of functions that share their name with others, mostly
generic ones: the rest stays good until functions get other names. A name that is found nowhere does no harm.
"""

import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

TARGET = pathlib.Path(__file__).resolve().parents[3] / "services/server/layout.txt"

# The benchmark kills what it started, and valgrind has to end by itself to write down what it saw.
WRAPPER = """#!/bin/sh
valgrind -q --tool=callgrind --demangle=no --callgrind-out-file={folder}/%p.out {vmcp} "$@" &
echo $! >> {folder}/pids
wait
"""


def profiles(release, folder):
    """Runs the benchmark with the gateways under valgrind."""
    wrapper = folder / "vmcp"
    wrapper.write_text(WRAPPER.format(folder=folder, vmcp=release / "vmcp"))
    wrapper.chmod(0o755)
    bench = [release / "bench", "--smoke", "--no-build", "--vmcp", wrapper]
    # What is slow under valgrind is not wrong: the rows are not what this is for.
    subprocess.run(bench, check=False)
    running = [int(pid) for pid in (folder / "pids").read_text().split()]
    for pid in running:
        os.kill(pid, signal.SIGTERM)
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in running):
        time.sleep(0.1)
    return sorted(folder.glob("*.out"))


def ran(profile, known):
    """How often one gateway called each of the known functions, those of the program."""
    functions, calls = {}, collections.Counter()
    callee = None
    for line in profile.open():
        found = re.match(r"(c?)fn=\((\d+)\)(?: (.*))?", line)
        if found:
            call, number, name = found.groups()
            if name:
                functions[number] = plain(name.strip())
            callee = functions[number]
            if not call:
                calls[callee] += 0
            continue
        found = re.match(r"calls=(\d+)", line)
        if found:
            calls[callee] += int(found[1])
    return {name: count for name, count in calls.items() if name in known}


def plain(name):
    """The name without the mark of a recursive call."""
    return re.sub(r"'\d+$", "", name)


def pattern(name):
    """The name in any build: without the hashes of crates and types."""
    name = re.sub(r"17h[0-9a-f]{16}E", "17h*E", name)
    return re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name) if name.startswith("_R") else name


def sizes(program):
    """How long each function is, in bytes."""
    listed = subprocess.run(["nm", "-S", "--defined-only", program], check=True, capture_output=True, text=True)
    rows = map(str.split, listed.stdout.splitlines())
    return {row[3]: int(row[1], 16) for row in rows if len(row) == 4 and row[2] in "tT"}


def entries(order, sizes):
    """How the functions are named in the file, in their order."""
    weights = [collections.Counter(), collections.Counter()]
    for names, weight in zip((sizes, order), weights):
        for name in names:
            weight[pattern(name)] += sizes.get(name, 0)
    everything, wanted = weights
    for name in order:
        # Names that many functions share would bring along what nobody runs.
        shared = everything[pattern(name)] > 1.5 * wanted[pattern(name)]
        yield name if shared else pattern(name)


def main():
    release = pathlib.Path(sys.argv[1]).resolve()
    known = sizes(release / "vmcp")
    with tempfile.TemporaryDirectory() as folder:
        counts = [ran(path, known) for path in profiles(release, pathlib.Path(folder))]
    if not counts:
        sys.exit("no gateway was profiled: is valgrind installed?")
    gateways, most = collections.Counter(), collections.Counter()
    for calls in counts:
        for name, number in calls.items():
            gateways[name] += 1
            most[name] = max(most[name], number)
    # What every gateway runs comes first, so that one without some of the layers keeps least in memory.
    order = sorted(gateways, key=lambda name: (-gateways[name], -most[name], name))
    names = [name for name in dict.fromkeys(entries(order, known)) if re.fullmatch(r"[\w.$*]+", name)]
    TARGET.write_text("".join(f"{name}\n" for name in names))
    print(f"{len(names)} functions of {len(counts)} gateways: {TARGET}")


if __name__ == "__main__":
    main()

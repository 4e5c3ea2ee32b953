"""Counts the instructions that the gateway executes for one request, with callgrind.

Runs a row of the benchmark twice, with 200 and with 1,200 requests, and divides the difference, so that the start of the
process does not count. Build the programs first:

    cargo build --release -p vmcp -p vmcp-bench --bins
    python3 tests/tools/instructions.py target/release full-call-stateful

`--option` passes an option to `vmcp serve`, `--section` adds a section to its configuration:

    python3 tests/tools/instructions.py target/release call-stateful --option=--seal-key=keys \
        --section 'sessionStorage: {provider: redis, address: "127.0.0.1:6379"}'

Requires valgrind. The figure is reproducible within a percent on a busy machine, other than CPU time.
"""

import argparse
import os
import pathlib
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import time

FEW, MANY = 200, 1_200
# A process under callgrind writes its profile when it ends.
PROFILE_TIMEOUT = 120


def total(profile: pathlib.Path) -> int:
    for line in profile.read_text(errors="replace").splitlines():
        if line.startswith(("summary:", "totals:")):
            return int(line.split()[1])
    raise SystemExit(f"{profile}: no total")


def count(programs: pathlib.Path, row: str, requests: int, options: str, section: str) -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        wrapper = folder / "vmcp"
        (folder / "section").write_text(f"\n{section}\n")
        wrapper.write_text(
            "#!/bin/sh\n"
            "previous=\n"
            "for argument; do\n"
            f'    [ "$previous" != --config ] || cat {folder}/section >> "$argument"\n'
            "    previous=$argument\n"
            "done\n"
            f"valgrind --tool=callgrind --callgrind-out-file={folder}/%p.profile"
            f' {programs}/vmcp "$@" {options} &\n'
            f"echo $! >> {folder}/pids\n"
            "wait\n"
        )
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        bench = [programs / "bench", "--no-build", "--smoke", "--requests", str(requests)]
        try:
            run = subprocess.run(
                [*bench, "--profile-row", row, "--vmcp", wrapper], capture_output=True, text=True
            )
        finally:
            pids = folder / "pids"
            started = [int(pid) for pid in pids.read_text().split()] if pids.exists() else []
            for pid in started:
                try:
                    os.kill(pid, signal.SIGTERM)
                except ProcessLookupError:
                    pass
        if run.returncode != 0:
            raise SystemExit(run.stderr + run.stdout)
        deadline = time.monotonic() + PROFILE_TIMEOUT
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in started):
            if time.monotonic() > deadline:
                raise SystemExit("the gateway does not end")
            time.sleep(0.2)
        return sum(total(profile) for profile in folder.glob("*.profile"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=pathlib.Path, help="folder of vmcp, bench and its tools")
    parser.add_argument("rows", nargs="+", help="rows of the benchmark, by their whole names")
    parser.add_argument("--option", action="append", default=[], help="option of vmcp serve")
    parser.add_argument("--section", default="", help="YAML that the configuration gets too")
    arguments = parser.parse_args()
    options = shlex.join(arguments.option)
    for row in arguments.rows:
        programs = arguments.programs.resolve()
        few, many = (
            count(programs, row, requests, options, arguments.section) for requests in (FEW, MANY)
        )
        print(f"{row}: {(many - few) // (MANY - FEW):,} instructions", flush=True)


if __name__ == "__main__":
    sys.exit(main())

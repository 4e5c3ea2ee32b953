"""Builds an image of one program as an OCI layout, without a container engine. Equal inputs give equal digests.

    image.py build --program FILE --title NAME --version VERSION --output DIR [--libraries] [--port PORT]...
    image.py root --program FILE --output DIR [--libraries]
    image.py show DIR

`root` writes only the files of the image, for a Containerfile. `--libraries` adds the shared libraries of a program that is
not static. SOURCE_DATE_EPOCH is the time of all files and of the image; 0 without it.
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile

# User and group of the process. A number, so that Kubernetes can tell that it is not root.
USER = 65532
CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def libraries(program):
    """Returns the shared libraries that the program loads, with their paths."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if "statically linked" in listed.stdout or "not a dynamic" in listed.stderr:
        return []
    listed.check_returncode()
    return sorted(set(re.findall(r"(/\S+) \(0x", listed.stdout)))


def files(program, with_libraries):
    """Returns the files of the image: path, mode and content; None is a directory."""
    name = pathlib.Path(program).name
    entries = {
        name: (0o755, pathlib.Path(program).read_bytes()),
        "tmp": (0o1777, None),
        "etc/passwd": (
            0o644,
            f"root:x:0:0:root:/:/sbin/nologin\nvmcp:x:{USER}:{USER}:vmcp:/:/sbin/nologin\n".encode(),
        ),
        "etc/group": (0o644, f"root:x:0:\nvmcp:x:{USER}:\n".encode()),
        "etc/nsswitch.conf": (0o644, b"hosts: files dns\n"),
        CA_BUNDLE.lstrip("/"): (0o644, pathlib.Path(CA_BUNDLE).read_bytes()),
    }
    if with_libraries:
        for path in libraries(program):
            entries[path.lstrip("/")] = (0o755, pathlib.Path(path).read_bytes())
    for path in list(entries):
        for parent in pathlib.PurePosixPath(path).parents:
            if str(parent) != ".":
                entries.setdefault(str(parent), (0o755, None))
    return entries


def layer(entries, epoch):
    """Returns the files as an archive: sorted, with the same time and owner."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, (mode, content) in sorted(entries.items()):
            info = tarfile.TarInfo(path)
            info.mode = mode
            info.mtime = epoch
            if content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Layout:
    """An OCI layout in a directory."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        (self.path / "blobs/sha256").mkdir(parents=True, exist_ok=True)

    def add(self, media_type, content):
        """Stores a blob, and returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        (self.path / "blobs/sha256" / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, media_type, value):
        """Stores a document."""
        return self.add(media_type, json.dumps(value, sort_keys=True).encode())

    def finish(self, descriptors):
        """Writes the files that make the directory a layout."""
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": descriptors}
        (self.path / "index.json").write_text(json.dumps(index, sort_keys=True))
        (self.path / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))


def build(options):
    """Writes the layout, and returns the descriptor of the image."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    archive = layer(files(options.program, options.libraries), epoch)
    out = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=options.level, mtime=0) as packed:
        packed.write(archive)
    layout = Layout(options.output)
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    architecture = ARCHITECTURES[options.machine]
    config = layout.add_json(
        CONFIG,
        {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "architecture": architecture,
            "os": "linux",
            "config": {
                "User": f"{USER}:{USER}",
                "Entrypoint": [f"/{pathlib.Path(options.program).name}"],
                "Env": ["PATH=/"],
                "WorkingDir": "/",
                "StopSignal": "SIGTERM",
                "ExposedPorts": {f"{port}/tcp": {} for port in options.port},
                "Labels": labels(options),
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(archive).hexdigest()}"]},
        },
    )
    packed = layout.add(LAYER, out.getvalue())
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [packed]}
    descriptor = layout.add_json(MANIFEST, manifest)
    descriptor["platform"] = {"os": "linux", "architecture": architecture}
    descriptor["annotations"] = {"org.opencontainers.image.ref.name": options.version}
    layout.finish([descriptor])
    return descriptor


def labels(options):
    """Returns the labels of the image, by the names of the OCI."""
    named = {
        "title": options.title,
        "version": options.version,
        "licenses": "Apache-2.0",
        "source": "https://github.com/vmcp-dev/vmcp",
    }
    return {f"org.opencontainers.image.{name}": value for name, value in named.items()}


def image(path):
    """Returns the descriptor of a layout's only image, its manifest and its configuration."""
    path = pathlib.Path(path)
    (descriptor,) = json.loads((path / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(path, descriptor))
    return descriptor, manifest, json.loads(blob(path, manifest["config"]))


def blob(path, descriptor):
    """Returns a blob, whose digest has to match."""
    algorithm, digest = descriptor["digest"].split(":")
    content = (pathlib.Path(path) / "blobs" / algorithm / digest).read_bytes()
    if hashlib.sha256(content).hexdigest() != digest or len(content) != descriptor["size"]:
        sys.exit(f"blob {digest} does not match its digest")
    return content


def show(path):
    """Prints digest and compressed size."""
    descriptor, manifest, config = image(path)
    size = descriptor["size"] + manifest["config"]["size"] + sum(one["size"] for one in manifest["layers"])
    title = config["config"]["Labels"]["org.opencontainers.image.title"]
    print(f"{title}: {descriptor['digest']}, {size / 2**20:.1f} MiB compressed")


def write_root(options):
    """Writes the files of the image into a directory."""
    for path, (mode, content) in sorted(files(options.program, options.libraries).items()):
        target = pathlib.Path(options.output) / path
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        target.chmod(mode)


def main():
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_image = commands.add_parser("build")
    for name in ("--title", "--version"):
        of_image.add_argument(name, required=True)
    of_image.add_argument("--port", type=int, action="append", default=[])
    of_image.add_argument("--level", type=int, default=9, help="level of compression")
    of_image.add_argument("--machine", choices=ARCHITECTURES, default=platform.machine())
    of_root = commands.add_parser("root")
    for one in (of_image, of_root):
        one.add_argument("--program", required=True)
        one.add_argument("--output", required=True)
        one.add_argument("--libraries", action="store_true")
    commands.add_parser("show").add_argument("layout")
    options = parser.parse_args()
    if options.command == "show":
        show(options.layout)
    elif options.command == "root":
        write_root(options)
    else:
        if not options.libraries and libraries(options.program):
            sys.exit(f"{options.program} is not static: build it for the image, or add --libraries")
        build(options)
        show(options.output)


if __name__ == "__main__":
    main()

"""Prints the bill of materials of a program in CycloneDX: the crates that cargo compiles into it.

    sbom.py PACKAGE TARGET [OPTION OF CARGO]...

    sbom.py vmcp x86_64-unknown-linux-musl --no-default-features

Names, versions, licenses, sources and dependencies are those of `cargo metadata`, digests those of Cargo.lock. `cargo metadata`
resolves the features of all packages of a workspace together, so that `cargo tree` tells which crates the program has.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Namespace of the serial numbers: equal bills have equal ones.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/vmcp-dev/vmcp")


def cargo(*arguments):
    """Runs cargo, and returns its output."""
    command = ["cargo", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def compiled(package, target, options):
    """Returns name and version of all crates of the program."""
    tree = ["tree", "--locked", "--package", package, "--target", target, "--edges", "normal"]
    lines = cargo(*tree, "--prefix", "none", "--format", "{p}", *options).splitlines()
    pairs = (line.split()[:2] for line in lines if line)
    return {(name, version.removeprefix("v")) for name, version in pairs}


def purl(package):
    """Returns the URL of a package."""
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def component(package, digests):
    """Returns the entry of a package."""
    entry = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
        # The separator of crates from before SPDX expressions.
        "licenses": [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}],
    }
    if package["description"]:
        entry["description"] = package["description"].strip()
    if digest := digests.get((package["name"], package["version"])):
        entry["hashes"] = [{"alg": "SHA-256", "content": digest}]
    if package["repository"]:
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


def bill(name, target, options):
    """Returns the bill of materials."""
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    digests = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    chosen = compiled(name, target, options)
    packages = {one["id"]: one for one in metadata["packages"] if (one["name"], one["version"]) in chosen}
    if len(packages) != len(chosen):
        sys.exit("two crates have the same name and version")
    dependencies = []
    for node in metadata["resolve"]["nodes"]:
        if node["id"] in packages:
            linked = (one["pkg"] for one in node["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"]))
            on = sorted(purl(packages[one]) for one in linked if one in packages)
            dependencies.append({"ref": purl(packages[node["id"]]), "dependsOn": on})
    entries = sorted((component(one, digests) for one in packages.values()), key=lambda one: one["purl"])
    (root,) = (one for one in entries if one["name"] == name)
    root["type"] = "application"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root, "properties": [{"name": "vmcp:target", "value": target}]},
        "components": [one for one in entries if one is not root],
        "dependencies": sorted(dependencies, key=lambda one: one["ref"]),
    }
    content = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    return {**document, "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, content)}"}


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print(json.dumps(bill(sys.argv[1], sys.argv[2], sys.argv[3:]), indent=2))

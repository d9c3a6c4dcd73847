#!/usr/bin/env python3
"""Software bill of materials of the binary: CycloneDX 1.6 from cargo's own resolution, the same bytes for the same lock file.

sbom.py [--features kubernetes] [--out FILE]
"""
import argparse
import json
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "overdraft"
# Names of this project's bills; a bill's number is derived from what it lists.
SPACE = uuid.UUID("6f0d8a3c-30d1-4c1f-9a0d-6c6f2f6d1e0b")


def metadata(features):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--features", f"{PACKAGE}/{features}" if features else "",
               "--filter-platform", host()]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def host():
    told = subprocess.run(["rustc", "--version", "--verbose"], check=True, capture_output=True, text=True).stdout
    return next(line.split(": ")[1] for line in told.splitlines() if line.startswith("host: "))


def reached(graph, start):
    """What the binary links or runs: dependencies that are neither for tests nor for building."""
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    found, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        todo += below(nodes[name])
    return found, nodes


def below(node):
    return [one["pkg"] for one in node["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"])]


def component(package, checksums):
    purl = f"pkg:cargo/{package['name']}@{package['version']}"
    told = {"type": "library", "bom-ref": purl, "name": package["name"], "version": package["version"], "purl": purl}
    if package.get("license"):
        told["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        told["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package.get("repository"):
        told["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return told


def bill(features="kubernetes"):
    """The whole bill, as an object."""
    graph = metadata(features)
    packages = {package["id"]: package for package in graph["packages"]}
    start = next(key for key, package in packages.items() if package["name"] == PACKAGE and package["source"] is None)
    found, nodes = reached(graph, start)
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock}
    ref = {key: f"pkg:cargo/{packages[key]['name']}@{packages[key]['version']}" for key in found}
    components = sorted((component(packages[key], checksums) for key in found - {start}), key=lambda one: one["bom-ref"])
    links = [{"ref": ref[key], "dependsOn": sorted(ref[one] for one in below(nodes[key]))} for key in sorted(found, key=ref.get)]
    main = {**component(packages[start], checksums), "type": "application"}
    number = uuid.uuid5(SPACE, json.dumps([main, components, links]))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}", "version": 1,
            "metadata": {"component": main}, "components": components, "dependencies": links}


def text(features="kubernetes"):
    return json.dumps(bill(features), indent=1) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", default="kubernetes")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    made = text(arguments.features)
    if arguments.out:
        arguments.out.write_text(made)
        print(f"{arguments.out}: {made.count('bom-ref') - 1} components")
    else:
        sys.stdout.write(made)


if __name__ == "__main__":
    main()

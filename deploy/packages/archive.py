#!/usr/bin/env python3
"""Makes the archive of a binary of Overdraft for machines without a package manager: the same bytes for the same binary.

archive.py --binary PROGRAM --out FOLDER [--sbom FILE] [--symbols FILE]

It unpacks to one folder: the binary, manual, completions, systemd units, an example of the configuration, the bill of materials. With
--symbols a second archive has the debug information; a debugger finds it beside the binary by the name that the binary tells.
"""
import argparse
import io
import tarfile
from pathlib import Path

import contents
import sbom


def files(binary, bill):
    """Every file by its path, with its mode."""
    made = {"overdraft": (binary.read_bytes(), 0o755), "sbom.cdx.json": (bill.encode(), 0o644)}
    for shell, text in contents.completions(binary).items():
        made[f"completions/{contents.SHELLS[shell]}"] = (text.encode(), 0o644)
    for name, text in contents.pages(binary).items():
        made[f"man/man1/{name}"] = (text.encode(), 0o644)
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "examples/overdraft.yaml"):
        made[name] = ((contents.ROOT / name).read_bytes(), 0o644)
    for path in sorted((contents.DEPLOY / "systemd").iterdir()):
        made[f"systemd/{path.name}"] = (path.read_bytes(), 0o644)
    return made


def pack(target, folder, made):
    """A tar file whose bytes depend on its files alone."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (data, mode) in sorted(made.items()):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), mode, contents.STAMP
            entry.uname = entry.gname = "root"
            tar.addfile(entry, io.BytesIO(data))
    target.write_bytes(contents.compressed(plain.getvalue()))
    return target


def make(binary, out, bill, symbols=None):
    """Makes the archives; where they are."""
    out.mkdir(parents=True, exist_ok=True)
    folder = f"overdraft-{contents.version(binary)}-{contents.machine()}-linux-gnu"
    made = [pack(out / f"{folder}.tar.gz", folder, files(binary, bill))]
    if symbols:
        made.append(pack(out / f"{folder}-debug.tar.gz", folder, {symbols.name: (symbols.read_bytes(), 0o644)}))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--sbom", type=Path, help="a bill that was made before")
    parser.add_argument("--symbols", type=Path, help="the debug information of the binary")
    arguments = parser.parse_args()
    bill = arguments.sbom.read_text() if arguments.sbom else sbom.text()
    for path in make(arguments.binary.resolve(), arguments.out, bill, arguments.symbols):
        print(path)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes the wheel of a binary of Overdraft: `pip install` puts it, its manual and completions into an environment.

wheel.py --binary PROGRAM --out FOLDER [--sbom FILE]

The wheel has the layout of maturin's `bindings = "bin"`, with the same binary as the other packages and the same bytes for the same
binary. What it says of itself is in wheel/pyproject.toml, by which maturin builds from source: `pip wheel deploy/packages/wheel`.
"""
import argparse
import base64
import hashlib
import time
import tomllib
import zipfile
from pathlib import Path

import contents
import sbom

WHEEL = Path(__file__).resolve().parent / "wheel"
SHARE = {"bash": "bash-completion/completions", "zsh": "zsh/site-functions", "fish": "fish/vendor_completions.d"}


def metadata(project, version):
    """What pip and an index show of it."""
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}",
             f"Keywords: {','.join(project['keywords'])}", f"License-Expression: {project['license']}", "License-File: LICENSE",
             *(f"Classifier: {one}" for one in project["classifiers"]), f"Requires-Python: {project['requires-python']}",
             "Description-Content-Type: text/markdown"]
    return "\n".join(lines) + "\n\n" + (WHEEL / project["readme"]).read_text()


def tag(binary):
    """Any Python 3, no interface of Python, a Linux whose C library is not older."""
    major, minor = contents.libc(binary)
    return f"py3-none-manylinux_{major}_{minor}_{contents.machine()}"


def files(binary, bill):
    """Every file but the record, by its path."""
    project = tomllib.loads((WHEEL / "pyproject.toml").read_text())["project"]
    version = contents.version(binary)
    name = f"{project['name']}-{version}"
    made = {f"{name}.data/scripts/overdraft": binary.read_bytes()}
    for shell, text in contents.completions(binary).items():
        made[f"{name}.data/data/share/{SHARE[shell]}/{contents.SHELLS[shell]}"] = text.encode()
    for page, text in contents.pages(binary).items():
        made[f"{name}.data/data/share/man/man1/{page}"] = text.encode()
    information = f"{name}.dist-info"
    made[f"{information}/licenses/LICENSE"] = (contents.ROOT / "LICENSE").read_bytes()
    made[f"{information}/sboms/overdraft.cdx.json"] = bill.encode()
    made[f"{information}/METADATA"] = metadata(project, version).encode()
    made[f"{information}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: overdraft\nRoot-Is-Purelib: false\nTag: {tag(binary)}\n".encode()
    return information, made


def record(made, path):
    """The digest and the size of every file but this one."""
    lines = []
    for name, data in made.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{path},,\n"]).encode()


def make(binary, out, bill):
    """Makes the wheel; where it is."""
    out.mkdir(parents=True, exist_ok=True)
    information, made = files(binary, bill)
    made[f"{information}/RECORD"] = record(made, f"{information}/RECORD")
    target = out / f"{information.removesuffix('.dist-info')}-{tag(binary)}.whl"
    stamp = time.gmtime(contents.STAMP)[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in made.items():
            entry = zipfile.ZipInfo(name, stamp)
            mode = 0o755 if "/scripts/" in name else 0o644
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--sbom", type=Path, help="a bill that was made before")
    arguments = parser.parse_args()
    bill = arguments.sbom.read_text() if arguments.sbom else sbom.text()
    print(make(arguments.binary.resolve(), arguments.out, bill))


if __name__ == "__main__":
    main()

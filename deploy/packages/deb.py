#!/usr/bin/env python3
"""Makes the Debian package of a binary of Overdraft: the same bytes for the same binary.

deb.py --binary PROGRAM --out FOLDER [--sbom FILE]

The package has the binary, systemd units, a configuration, completions for three shells, the manual and the bill of
materials. It enables nothing: an operator writes the configuration first, then `systemctl enable --now overdraft.socket`.
"""
import argparse
import gzip
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import sbom

DEPLOY = Path(__file__).resolve().parents[1]
ROOT = DEPLOY.parent
# Of all files, unless SOURCE_DATE_EPOCH says another: lintian takes none from before Debian.
STAMP = int(os.environ.get("SOURCE_DATE_EPOCH", "1767225600"))
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
COMPLETIONS = {"bash": "usr/share/bash-completion/completions/overdraft", "zsh": "usr/share/zsh/vendor-completions/_overdraft",
               "fish": "usr/share/fish/vendor_completions.d/overdraft.fish"}


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def version(binary):
    return run(binary, "--version").split()[1]


def libc(binary):
    """The oldest C library that has what the binary asks for."""
    asked = re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "-T", binary))
    return ".".join(map(str, max((int(a), int(b)) for a, b in asked)))


def put(root, path, content, mode=0o644):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.copyfile(content, target)
    else:
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    target.chmod(mode)


def compressed(content):
    return gzip.compress(content.encode(), 9, mtime=0)


def files(root, binary, bill):
    put(root, "usr/bin/overdraft", binary, 0o755)
    for unit in ("overdraft.service", "overdraft.socket"):
        put(root, f"lib/systemd/system/{unit}", DEPLOY / "systemd" / unit)
    put(root, "etc/overdraft/overdraft.yaml", DEPLOY / "systemd" / "overdraft.yaml")
    for shell, path in COMPLETIONS.items():
        put(root, path, run(binary, "completions", shell))
    with tempfile.TemporaryDirectory() as pages:
        run(binary, "man", "--out", pages)
        for page in sorted(Path(pages).iterdir()):
            put(root, f"usr/share/man/man1/{page.name}.gz", compressed(page.read_text()))
    documents = "usr/share/doc/overdraft"
    put(root, f"{documents}/copyright", (DEPLOY / "packages" / "debian" / "copyright").read_text())
    put(root, f"{documents}/changelog.gz", compressed((ROOT / "CHANGELOG.md").read_text()))
    put(root, f"{documents}/examples/overdraft.yaml", ROOT / "examples" / "overdraft.yaml")
    put(root, f"{documents}/sbom.cdx.json.gz", compressed(bill))


def control(root, binary):
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    put(root, "DEBIAN/control", f"""Package: overdraft
Version: {version(binary)}
Architecture: {ARCHITECTURES[platform.machine()]}
Maintainer: Overdraft maintainers <maintainers@overdraft.example>
Installed-Size: {size}
Depends: libc6 (>= {libc(binary)}), libgcc-s1
Recommends: ca-certificates
Section: net
Priority: optional
Description: gateway before LLM workers
 Sends each request to the worker that holds its KV cache, keeps the memory of
 GPUs full without overdrawing it, and answers with a small model or a kept
 answer where that is good enough. Speaks the OpenAI API on both sides.
""")
    put(root, "DEBIAN/conffiles", "/etc/overdraft/overdraft.yaml\n")
    for script in ("postinst", "prerm", "postrm"):
        put(root, f"DEBIAN/{script}", DEPLOY / "packages" / "debian" / script, 0o755)


def stamp(root):
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (STAMP, STAMP))


def make(binary, out, bill):
    """Makes the package; where it is."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        files(root, binary, bill)
        control(root, binary)
        stamp(root)
        target = out / f"overdraft_{version(binary)}_{ARCHITECTURES[platform.machine()]}.deb"
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(STAMP)}
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, target], check=True, env=environment, stdout=subprocess.DEVNULL)
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

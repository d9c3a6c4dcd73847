#!/usr/bin/env python3
"""Makes the Debian package of a binary of Overdraft: the same bytes for the same binary.

deb.py --binary PROGRAM --out FOLDER [--sbom FILE]

The package has the binary, systemd units, a configuration, completions for three shells, the manual and the bill of
materials. It enables nothing: an operator writes the configuration first, then `systemctl enable --now overdraft.socket`.
"""
import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import contents
import sbom
from contents import DEPLOY, ROOT, STAMP, compressed

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
COMPLETIONS = {"bash": "usr/share/bash-completion/completions", "zsh": "usr/share/zsh/vendor-completions",
               "fish": "usr/share/fish/vendor_completions.d"}


def put(root, path, content, mode=0o644):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.copyfile(content, target)
    else:
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    target.chmod(mode)


def files(root, binary, bill):
    put(root, "usr/bin/overdraft", binary, 0o755)
    for unit in ("overdraft.service", "overdraft.socket"):
        put(root, f"lib/systemd/system/{unit}", DEPLOY / "systemd" / unit)
    put(root, "etc/overdraft/overdraft.yaml", DEPLOY / "systemd" / "overdraft.yaml")
    for shell, text in contents.completions(binary).items():
        put(root, f"{COMPLETIONS[shell]}/{contents.SHELLS[shell]}", text)
    for page, text in contents.pages(binary).items():
        put(root, f"usr/share/man/man1/{page}.gz", compressed(text))
    documents = "usr/share/doc/overdraft"
    put(root, f"{documents}/copyright", (DEPLOY / "packages" / "debian" / "copyright").read_text())
    put(root, f"{documents}/changelog.gz", compressed((ROOT / "CHANGELOG.md").read_text()))
    put(root, f"{documents}/examples/overdraft.yaml", ROOT / "examples" / "overdraft.yaml")
    put(root, f"{documents}/sbom.cdx.json.gz", compressed(bill))


def control(root, binary):
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    put(root, "DEBIAN/control", f"""Package: overdraft
Version: {contents.version(binary)}
Architecture: {ARCHITECTURES[contents.machine()]}
Maintainer: Overdraft maintainers <maintainers@overdraft.example>
Installed-Size: {size}
Depends: libc6 (>= {'.'.join(map(str, contents.libc(binary)))}), libgcc-s1
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
        target = out / f"overdraft_{contents.version(binary)}_{ARCHITECTURES[contents.machine()]}.deb"
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

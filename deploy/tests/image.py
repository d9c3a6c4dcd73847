"""Proofs of the image's root file system: however Debian lays its packages out, the kernel finds what starts the binary."""
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import tools

LOADER = "/lib64/ld-linux-x86-64.so.2"
LIBRARY = "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
# What stands where in the C library's package: files by path, and links with what they point to.
DEBIAN_12 = {LIBRARY: None, "lib64/ld-linux-x86-64.so.2": f"/{LIBRARY}"}
DEBIAN_13 = {f"usr/{LIBRARY}": None, "usr/lib64/ld-linux-x86-64.so.2": f"../{LIBRARY}"}
OTHER_ARCHITECTURE = {"usr/lib/ld-linux-aarch64.so.1": None}


def binary(path):
    """A 64-bit ELF program of nothing but a header and the name of what starts it."""
    name = LOADER.encode() + b"\0"
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    path.write_bytes(head + struct.pack("<IIQQQQQQ", 3, 4, 120, 120, 120, len(name), len(name), 1) + name)
    return path


def package(folder, name, files):
    """A Debian package of these files and links."""
    root = folder / name
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: test\n")
    for path, target in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if target:
            (root / path).symlink_to(target)
        else:
            (root / path).write_text("a file\n")
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", root, folder / "packages"], check=True, stdout=subprocess.DEVNULL)


def made(folder, files):
    """What `rootfs.py` says of a C library laid out like this, and the root that it makes."""
    (folder / "packages").mkdir()
    package(folder, "libc6", files)
    package(folder, "ca-certificates", {"usr/share/ca-certificates/one.crt": None})
    root = folder / "root"
    command = [sys.executable, tools.DEPLOY / "image/rootfs.py", "--binary", binary(folder / "overdraft"), "--packages", folder / "packages", "--out", root]
    return subprocess.run(command, capture_output=True, text=True), root


def findings():
    if not shutil.which("dpkg-deb"):
        raise tools.Missing("dpkg-deb is not installed")
    for name, files in {"Debian 12": DEBIAN_12, "Debian 13": DEBIAN_13}.items():
        with tempfile.TemporaryDirectory() as folder:
            done, root = made(Path(folder), files)
            if done.returncode:
                yield f"{name}: {done.stderr.strip()}"
            elif not (root / "lib64").is_dir():
                yield f"{name}: nothing is at {LOADER}, by which the kernel starts the binary"
    with tempfile.TemporaryDirectory() as folder:
        done, _ = made(Path(folder), OTHER_ARCHITECTURE)
        if LOADER not in done.stderr:
            yield f"packages without {LOADER} are taken: {done.stdout}{done.stderr}"

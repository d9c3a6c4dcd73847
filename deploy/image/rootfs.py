#!/usr/bin/env python3
"""Makes the root file system of the image from Debian's packages and a binary of Overdraft.

rootfs.py --binary PROGRAM --out FOLDER [--packages FOLDER]

The packages (C library, its compiler's library, certificates, time zones) come by `apt-get download`, or from a folder
where they lie already. Of them only what a dynamic binary needs is kept. All files get one time stamp, so that two
images of the same files have the same digest.
"""
import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("libc6", "libgcc-s1", "ca-certificates", "tzdata")
# What the binary never opens.
DROPPED = ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/bug", "usr/lib/x86_64-linux-gnu/gconv",
           "usr/lib/aarch64-linux-gnu/gconv", "usr/sbin", "usr/share/zoneinfo/right", "usr/share/zoneinfo/posix", "etc/init.d")
# Since Debian 13 the C library lies under /usr alone, and `base-files`, which is not taken, makes these links.
MERGED = ("lib", "lib64")
USER = 65532
STAMP = 0
# Links that the kernel follows at most.
LINKS_MAX = 40
SEGMENT_OF_INTERPRETER = 3


def unpack(packages, root):
    for package in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    for name in DROPPED:
        shutil.rmtree(root / name, ignore_errors=True)
    for name in MERGED:
        if (root / "usr" / name).is_dir() and not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")


def interpreter(binary):
    """The program that the kernel starts a binary with (its ELF segment PT_INTERP); nothing for a static one."""
    data = binary.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        sys.exit(f"`{binary}` is no 64-bit ELF program; expected the binary of Overdraft for Linux")
    order = "<" if data[5] == 1 else ">"
    (table,) = struct.unpack_from(f"{order}Q", data, 32)
    size, count = struct.unpack_from(f"{order}HH", data, 54)
    for place in range(count):
        kind, _, offset, _, _, length = struct.unpack_from(f"{order}IIQQQQ", data, table + place * size)
        if kind == SEGMENT_OF_INTERPRETER:
            return data[offset:offset + length].rstrip(b"\0").decode()
    return None


def inside(root, path, links=LINKS_MAX):
    """Where a path leads for a process whose root is `root`: absolute links begin there too."""
    here, parts = root, [part for part in path.split("/") if part not in ("", ".")]
    for place, part in enumerate(parts):
        if part == "..":
            here = here.parent if here != root else root
        elif (here / part).is_symlink() and links:
            target = os.readlink(here / part)
            begin = "" if target.startswith("/") else str(here.relative_to(root))
            return inside(root, "/".join([begin, target, *parts[place + 1:]]), links - 1)
        else:
            here = here / part
    return here


def startable(root, binary):
    """Ends where the kernel would not find what it starts the binary with: its error then names the binary itself."""
    wanted = interpreter(binary)
    if wanted and not inside(root, wanted).is_file():
        sys.exit(f"`{binary}` is started by `{wanted}`, which is not in {root}; expected it in one of {', '.join(PACKAGES)}: "
                 "use packages of the binary's architecture")


def certificates(root):
    """One file of all authorities, as `update-ca-certificates` makes it."""
    found = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    if not found:
        sys.exit("the package ca-certificates has no certificates")
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in found))
    shutil.rmtree(root / "usr/share/ca-certificates")


def users(root):
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/:/nologin\noverdraft:x:{USER}:{USER}:overdraft:/tmp:/nologin\n")
    (root / "etc/group").write_text(f"root:x:0:\noverdraft:x:{USER}:\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


def stamp(root):
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            os.utime(Path(folder) / name, (STAMP, STAMP), follow_symlinks=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path, help="a folder, which is made anew")
    parser.add_argument("--packages", type=Path, help="a folder with Debian packages, instead of downloading them")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.out, ignore_errors=True)
    arguments.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        packages = arguments.packages or Path(folder)
        if not arguments.packages:
            subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=packages, check=True, stdout=subprocess.DEVNULL)
        unpack(packages, arguments.out)
    certificates(arguments.out)
    users(arguments.out)
    target = arguments.out / "usr/bin/overdraft"
    target.parent.mkdir(parents=True, exist_ok=True)
    for other in target.parent.iterdir():
        other.unlink()
    shutil.copyfile(arguments.binary, target)
    target.chmod(0o755)
    startable(arguments.out, target)
    stamp(arguments.out)
    size = sum(path.stat().st_size for path in arguments.out.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{arguments.out}: {size / 1e6:.0f} MB, of which {target.stat().st_size / 1e6:.0f} MB are the binary")


if __name__ == "__main__":
    main()

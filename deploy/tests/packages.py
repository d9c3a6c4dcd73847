"""Proofs of what is packaged: each package is installed where nothing else is, asked one request, and ended by SIGTERM.

Every proof takes a binary, makes the package of it twice, and yields what is wrong. Where the machine lacks a tool the proof is missing.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

import tools

sys.path.insert(0, str(tools.DEPLOY / "packages"))
sys.path.insert(0, str(tools.DEPLOY / "image"))
import archive  # noqa: E402
import deb  # noqa: E402
import wheel  # noqa: E402

# PyPI takes no larger file.
WHEEL_BYTES_MAX = 100_000_000
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
# Who runs the image, and who runs the Debian package here.
IMAGE_USER = 65532
NOBODY = 65534
SUITE = "bookworm"
MANUAL = "man/man1/overdraft.1"


class Served:
    """A gateway that was started with its embedded workers, until it is ended."""

    def __init__(self, command, log):
        self.log = log
        with open(log, "w") as file:
            self.process = subprocess.Popen([*map(str, command), "serve", "--listen", "127.0.0.1:0"], stderr=file, stdout=file)

    def address(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            told = re.search(r"serves on (http://\S+)", self.text())
            if told:
                return told.group(1)
            time.sleep(0.02)
        return None

    def text(self):
        return Path(self.log).read_text()

    def findings(self, look=lambda _: ()):
        """What is wrong with it: it comes up, answers, looks right to `look`, and ends well by SIGTERM."""
        try:
            url = self.address()
            if not url:
                yield f"it did not come up: {self.text()[-300:]}"
                return
            yield from asked(url)
            yield from look(self.process.pid)
            self.process.send_signal(signal.SIGTERM)
            code = self.process.wait(timeout=STOP_SECONDS_MAX)
            if code:
                yield f"it ended with {code} after SIGTERM: {self.text()[-300:]}"
        finally:
            self.process.kill()
            self.process.wait()


def asked(url):
    body = {"model": "overdraft-target", "max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        answer = json.load(urllib.request.urlopen(request, timeout=60))
    except OSError as error:
        yield f"it does not answer a request: {error}"
        return
    if not answer["choices"][0]["message"]["content"]:
        yield f"its answer is empty: {answer}"


def twice(name, make, folder):
    """Makes a package two times; where it is, and whether the bytes differ."""
    first, second = make(Path(folder) / "first"), make(Path(folder) / "second")
    differ = first.name != second.name or first.read_bytes() != second.read_bytes()
    return first, [f"{name}: made twice, the bytes differ"] * differ


def archive_findings(binary, bill):
    """The archive unpacks to one folder, and what is in it runs."""
    with tempfile.TemporaryDirectory() as folder:
        made, found = twice("archive", lambda out: archive.make(binary, out, bill)[0], folder)
        yield from found
        shutil.unpack_archive(made, folder, filter="data")
        root = next(path for path in Path(folder).iterdir() if path.name.startswith("overdraft-"))
        yield from absent(root, ("LICENSE", "sbom.cdx.json", MANUAL, "completions/_overdraft", "systemd/overdraft.service"))
        yield from Served([root / "overdraft"], f"{folder}/log").findings()


def wheel_findings(binary, bill):
    """`pip install` into a fresh environment, one request, SIGTERM, `pip uninstall`."""
    with tempfile.TemporaryDirectory() as folder:
        made, found = twice("wheel", lambda out: wheel.make(binary, out, bill), folder)
        yield from found
        if WHEEL_BYTES_MAX < made.stat().st_size:
            yield f"{made.name} has {made.stat().st_size} bytes; PyPI takes {WHEEL_BYTES_MAX}"
        if zipfile.ZipFile(made).testzip():
            yield f"{made.name} is no whole zip file"
        root = Path(folder) / "venv"
        venv.create(root, with_pip=True)
        before = set(root.rglob("*"))
        pip(root, "install", "--no-index", made)
        yield from absent(root, ("bin/overdraft", f"share/{MANUAL}", "share/bash-completion/completions/overdraft"))
        yield from Served([root / "bin/overdraft"], f"{folder}/log").findings()
        pip(root, "uninstall", "--yes", "overdraft")
        left = [path for path in set(root.rglob("*")) - before if path.is_file() and "__pycache__" not in path.parts]
        yield from (f"it is left after `pip uninstall`: {path.relative_to(root)}" for path in left)


def pip(root, *arguments):
    subprocess.run([root / "bin/pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def absent(root, names):
    return [f"{name} is not in it" for name in names if not (root / name).exists()]


def deb_findings(binary, bill, cache):
    """`dpkg --install` into a Debian of its own, one request as nobody, SIGTERM, `dpkg --purge`."""
    needs_root("dpkg-deb", "debootstrap", "chroot")
    with tempfile.TemporaryDirectory() as folder:
        made, found = twice("Debian package", lambda out: deb.make(binary, out, bill), folder)
        yield from found
        root = debian(cache)
        shutil.copy(made, root / "tmp/overdraft.deb")
        inside = ["chroot", root]
        subprocess.run([*inside, "dpkg", "--install", "/tmp/overdraft.deb"], check=True, stdout=subprocess.DEVNULL)
        try:
            yield from absent(root, ("usr/bin/overdraft", "lib/systemd/system/overdraft.service", f"usr/share/{MANUAL}.gz",
                                     "usr/share/zsh/vendor-completions/_overdraft"))
            command = ["chroot", f"--userspec={NOBODY}:{NOBODY}", root, "/usr/bin/overdraft"]
            yield from Served(command, f"{folder}/log").findings(lambda pid: runs_as(pid, NOBODY))
        finally:
            subprocess.run([*inside, "dpkg", "--purge", "overdraft"], check=True, stdout=subprocess.DEVNULL)
        left = [path for path in root.rglob("*overdraft*") if "proc" not in path.parts and path.name != "overdraft.deb"]
        yield from (f"it is left after `dpkg --purge`: {path.relative_to(root)}" for path in left)


def debian(cache):
    """A smallest Debian, made once."""
    root = Path(cache) / f"debian-{SUITE}"
    if not (root / "usr/bin/dpkg").exists():
        command = ["debootstrap", "--variant=minbase", SUITE, root]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            shutil.rmtree(root, ignore_errors=True)
            raise tools.Missing(f"debootstrap failed: {made.stdout.strip().splitlines()[-1:]}")
    return root


def image_findings(binary, _bill):
    """The image's root file system, read-only, run by a user without rights; its health check."""
    needs_root("unshare", "chroot", "apt-get", "mount")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        command = [sys.executable, tools.DEPLOY / "image/rootfs.py", "--binary", binary, "--out", root]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            raise tools.Missing(f"rootfs.py: {made.stderr.strip().splitlines()[-1:]}")
        # `exec` all the way, so that signals reach the gateway.
        script = ('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && mount -t tmpfs tmpfs "$0/tmp" && '
                  f'exec chroot --userspec={IMAGE_USER}:{IMAGE_USER} "$0" /usr/bin/overdraft "$@"')
        inside = ["unshare", "--mount", "sh", "-c", script, root]
        served = Served(inside, f"{folder}/log")

        def look(pid):
            yield from runs_as(pid, IMAGE_USER)
            if not re.search(r"^\d+ \d+ \S+ \S+ / ro", Path(f"/proc/{pid}/mountinfo").read_text(), re.M):
                yield "its root can be written to"
            live = subprocess.run([*inside, "check", "--live", served.address()], capture_output=True, text=True)
            if live.returncode:
                yield f"its health check fails: {live.stderr}"
        yield from served.findings(look)


def runs_as(pid, user):
    told = re.search(r"^Uid:\s+(\d+)\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    if set(told.groups()) != {str(user)}:
        yield f"it runs as {told.group(2)}, not {user}"


def needs_root(*programs):
    missing = [name for name in programs if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    if missing:
        raise tools.Missing(f"{missing[0]} is not installed")
    if os.geteuid():
        raise tools.Missing("only root may change the root folder")


def checks(binary, bill, cache):
    """Every proof by its name."""
    return {
        "archive: unpacked, asked, ended": lambda: archive_findings(binary, bill),
        "wheel: installed into a fresh environment, asked, ended, removed": lambda: wheel_findings(binary, bill),
        "Debian package: installed into a Debian, asked, ended, removed": lambda: deb_findings(binary, bill, cache),
        "image: read-only root, user without rights, asked, ended": lambda: image_findings(binary, bill),
    }

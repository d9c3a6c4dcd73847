"""What every package carries beside the binary, asked of the binary itself; and what makes packages reproducible."""
import gzip
import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[1]
ROOT = DEPLOY.parent
# Of all files, unless SOURCE_DATE_EPOCH says another: zip and lintian take none from before 1980 and before Debian.
STAMP = int(os.environ.get("SOURCE_DATE_EPOCH", "1767225600"))
SHELLS = {"bash": "overdraft", "zsh": "_overdraft", "fish": "overdraft.fish"}


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def version(binary):
    return run(binary, "--version").split()[1]


def libc(binary):
    """The oldest C library that has what the binary asks for, as (2, 34)."""
    asked = re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "-T", binary))
    return max((int(major), int(minor)) for major, minor in asked)


def completions(binary):
    """The completions of each shell."""
    return {shell: run(binary, "completions", shell) for shell in SHELLS}


def pages(binary):
    """The manual, a text for each file name."""
    with tempfile.TemporaryDirectory() as folder:
        run(binary, "man", "--out", folder)
        return {page.name: page.read_text() for page in sorted(Path(folder).iterdir())}


def compressed(content):
    data = content.encode() if isinstance(content, str) else content
    return gzip.compress(data, 9, mtime=0)


def machine():
    return platform.machine()

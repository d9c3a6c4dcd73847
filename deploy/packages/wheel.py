#!/usr/bin/env python3
"""Makes the wheel of the binary with maturin, then proves it: a fresh environment, `pip install`, one request, SIGTERM.

wheel.py --binary PROGRAM --out FOLDER [--profile dev] [--sbom FILE] [--maturin PROGRAM]

The binary that is named only prints completions and manual; maturin builds the one in the wheel.
"""
import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

import sbom

WHEEL = Path(__file__).resolve().parent / "wheel"
# PyPI takes no larger file.
WHEEL_BYTES_MAX = 100_000_000
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


def data(binary, bill):
    """What is installed beside the binary, where maturin looks for it."""
    share = WHEEL / "overdraft.data" / "data" / "share"
    shutil.rmtree(WHEEL / "overdraft.data", ignore_errors=True)
    for folder in ("man/man1", "bash-completion/completions", "zsh/site-functions", "fish/vendor_completions.d", "doc/overdraft"):
        (share / folder).mkdir(parents=True)
    subprocess.run([binary, "man", "--out", share / "man/man1"], check=True)
    for shell, path in {"bash": "bash-completion/completions/overdraft", "zsh": "zsh/site-functions/_overdraft",
                        "fish": "fish/vendor_completions.d/overdraft.fish"}.items():
        (share / path).write_text(subprocess.run([binary, "completions", shell], check=True, capture_output=True, text=True).stdout)
    (share / "doc/overdraft/sbom.cdx.json").write_text(bill)


def build(maturin, profile, out):
    out.mkdir(parents=True, exist_ok=True)
    before = set(out.glob("*.whl"))
    subprocess.run([maturin, "build", "--profile", profile, "--locked", "--out", out.resolve()], cwd=WHEEL, check=True)
    made = set(out.glob("*.whl")) - before or before
    return max(made, key=lambda path: path.stat().st_mtime)


def prove(wheel):
    """Installs the wheel where nothing else is, asks it one request, and ends it."""
    if WHEEL_BYTES_MAX < wheel.stat().st_size:
        sys.exit(f"{wheel} has {wheel.stat().st_size} bytes; PyPI takes {WHEEL_BYTES_MAX}")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/pip", "install", "--quiet", "--no-index", wheel], check=True)
        with open(f"{folder}/log", "w+") as log:
            gateway = subprocess.Popen([f"{folder}/bin/overdraft", "serve", "--listen", "127.0.0.1:0"], stderr=log, stdout=log)
            try:
                answer = ask(address(gateway, f"{folder}/log"))
                gateway.send_signal(signal.SIGTERM)
                code = gateway.wait(timeout=STOP_SECONDS_MAX)
            finally:
                gateway.kill()
    if code or not answer["choices"]:
        sys.exit(f"the installed binary ended with {code} after {answer}")
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB; installed, answered, ended with 0")


def address(gateway, log):
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and gateway.poll() is None:
        told = re.search(r"serves on (http://\S+)", Path(log).read_text())
        if told:
            return told.group(1)
        time.sleep(0.05)
    sys.exit(f"the installed binary did not come up: {Path(log).read_text()}")


def ask(url):
    body = {"model": "overdraft-target", "max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--profile", default="dist")
    parser.add_argument("--sbom", type=Path, help="a bill that was made before")
    parser.add_argument("--maturin", default="maturin")
    arguments = parser.parse_args()
    data(arguments.binary.resolve(), arguments.sbom.read_text() if arguments.sbom else sbom.text())
    prove(build(arguments.maturin, arguments.profile, arguments.out))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes all artefacts of a release from one binary, measures it, and proves each package.

release.py --binary PROGRAM --symbols FILE --out FOLDER [--expect FILE]

`cargo xtask release` builds the binary and calls this. The artefacts: an archive, its debug information, wheel, Debian package, bill of
materials, and SHA256SUMS of them. Exit code 1 where the binary is too large or too slow to start, a package does not work, or the
checksums are not those of --expect.
"""
import argparse
import hashlib
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import archive
import contents
import deb
import sbom
import wheel

sys.path.insert(0, str(contents.DEPLOY / "tests"))
import check  # noqa: E402
import packages  # noqa: E402

BINARY_BYTES_MAX = 45_000_000
START_MILLISECONDS_MAX = 50
START_SECONDS_MAX = 10
# The median of so many starts counts.
STARTS = 11


def make(binary, symbols, out):
    """Makes every artefact; where they are, and the bill of materials."""
    out.mkdir(parents=True, exist_ok=True)
    bill = sbom.text()
    listed = out / f"overdraft-{contents.version(binary)}.cdx.json"
    listed.write_text(bill)
    made = [listed, *archive.make(binary, out, bill, symbols), wheel.make(binary, out, bill), deb.make(binary, out, bill)]
    return made, bill


def checksums(made):
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made))


def start(binary):
    """Milliseconds from the start of the process until it answers at /livez, before one worker that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [binary, "serve", "--listen", f"127.0.0.1:{port}", "--worker", "http://127.0.0.1:9"]
    begun = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while time.monotonic() - begun < START_SECONDS_MAX:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=START_SECONDS_MAX).close()
                return (time.monotonic() - begun) * 1000
            except OSError:
                time.sleep(0.0005)
        sys.exit("the binary did not start")
    finally:
        process.kill()
        process.wait()


def binary_findings(binary):
    size = binary.stat().st_size
    took = statistics.median(start(binary) for _ in range(STARTS))
    print(f"binary: {size / 1e6:.1f} MB, starts in {took:.0f} ms (median of {STARTS})")
    if BINARY_BYTES_MAX < size:
        yield f"the binary has {size} bytes; expected at most {BINARY_BYTES_MAX}"
    if START_MILLISECONDS_MAX < took:
        yield f"it starts in {took:.0f} ms; expected at most {START_MILLISECONDS_MAX}"


def paths_findings(binary):
    """Folders of the machine that built it, which would make it another one elsewhere."""
    data = binary.read_bytes()
    for folder in (str(contents.ROOT), str(Path.home() / ".cargo")):
        found = re.search(re.escape(folder.encode()) + rb"[ -~]{0,80}", data)
        if found:
            yield f"it names a folder of this machine: {found.group().decode()}"


def expected_findings(sums, expect):
    wanted = expect.read_text()
    return [] if sums == wanted else [f"the checksums are not those of {expect}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--symbols", required=True, type=Path, help="its debug information")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--expect", type=Path, help="checksums of another release of the same commit")
    arguments = parser.parse_args()
    binary = arguments.binary.resolve()
    made, bill = make(binary, arguments.symbols, arguments.out)
    sums = checksums(made)
    (arguments.out / "SHA256SUMS").write_text(sums)
    for path in made:
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    report = check.Report()
    report.run("binary: size and start", lambda: binary_findings(binary))
    report.run("binary: no folder of this machine", lambda: paths_findings(binary))
    for name, proof in packages.checks(binary, bill, arguments.out.parent).items():
        report.run(name, proof)
    if arguments.expect:
        report.run("checksums as expected", lambda: expected_findings(sums, arguments.expect))
    print(f"{report.failed} failed, {report.skipped} skipped")
    return int(report.failed > 0)


if __name__ == "__main__":
    sys.exit(main())

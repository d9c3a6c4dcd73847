"""Lints of what runs without Kubernetes: compose file, Containerfile, systemd units."""
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

import objects
import tools

COMPOSE = tools.DEPLOY / "compose"
UNITS = tools.DEPLOY / "systemd"
SECURITY = tools.ROOT / "docs" / "guide" / "security.md"
CONTAINERFILE = tools.DEPLOY / "image" / "Containerfile"
# systemd-analyze tells an exposure tenfold: 20 is 2.0.
EXPOSURE_MAX = 20
STOP_MARGIN_SECONDS = 5 + objects.LAST_SCRAPE_SECONDS
# Clients that connect during a restart wait at systemd's socket for the whole drain, without an answer.
SOCKET_DRAIN_SECONDS_MAX = 60


def compose_findings(program):
    """What a compose file must say of the gateway, and that what it mounts is there."""
    text = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    config = yaml.safe_load((COMPOSE / "config" / "overdraft.yaml").read_text())
    found = []
    for name, service in text["services"].items():
        if service["image"].endswith(":latest") or ":" not in service["image"]:
            found.append(f"{name}: the image {service['image']} has no version")
        for port in service.get("ports", []):
            if not port.startswith("127.0.0.1:"):
                found.append(f"{name}: the port {port} is open to the network")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith(".") and not (COMPOSE / source).exists():
                found.append(f"{name}: it mounts {source}, which is not there")
        if service["image"].startswith("overdraft/") and not (service.get("read_only") and service.get("user")):
            found.append(f"{name}: expected read_only and a user")
    shutdown = config["shutdown"]
    needed = objects.seconds(shutdown["lame_duck"]) + objects.seconds(shutdown["drain"]) + STOP_MARGIN_SECONDS
    if objects.seconds(text["services"]["gateway"]["stop_grace_period"]) < needed:
        found.append(f"gateway: stop_grace_period is shorter than lame duck and drain; expected {needed:g}s")
    hosts = {worker["url"].split("//")[1].split(":")[0] for worker in config["workers"]}
    found += [f"the worker {host} is no service" for host in hosts - set(text["services"])]
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "compose"}, "data": {"overdraft.yaml": yaml.safe_dump(config)}}
    return found + list(objects.clients_port([manifest])) + objects.binary([manifest], program)


def container_findings():
    """What an orchestrator relies on in the image."""
    text = CONTAINERFILE.read_text()
    wanted = {r"^USER \d+:\d+$": "a numbered user", r'^ENTRYPOINT \["': "an entry point without a shell", r"^STOPSIGNAL SIGTERM$": "STOPSIGNAL SIGTERM",
              r"^HEALTHCHECK .*overdraft": "a health check by the binary itself", r"org\.opencontainers\.image\.licenses": "labels"}
    return [f"Containerfile: expected {what}" for pattern, what in wanted.items() if not re.search(pattern, text, re.M)]


def unit_findings(units=UNITS):
    """Units that systemd understands, and that expose little. Its `verify` ends well on unknown keys: any word counts."""
    if not shutil.which("systemd-analyze"):
        raise tools.Missing("systemd-analyze is not installed")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for path in units.glob("overdraft.s*"):
            # The program and its manual are not installed here.
            text = path.read_text().replace("/usr/bin/overdraft", "/bin/true").replace("Documentation=man:overdraft(1)\n", "")
            (Path(folder) / path.name).write_text(text)
        made = subprocess.run(["systemd-analyze", "verify", *Path(folder).iterdir()], capture_output=True, text=True, timeout=60)
        found += [line for line in (made.stdout + made.stderr).splitlines() if "overdraft" in line]
        made = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", Path(folder) / "overdraft.service"],
                              capture_output=True, text=True, timeout=60)
        if made.returncode:
            found.append(f"overdraft.service: {(made.stdout or made.stderr).strip().splitlines()[-1]}")
    text = (units / "overdraft.service").read_text()
    for path in re.findall(r"`admin\.audit_log: (/[^`]+)`", SECURITY.read_text()):
        folder = Path(path).parent
        if folder.parent != Path("/var/log") or f"LogsDirectory={folder.name}\n" not in text:
            found.append(f"overdraft.service: it may not write {path}, where security.md has the audit log: each change at /admin would be refused")
    shutdown = yaml.safe_load((units / "overdraft.yaml").read_text())["shutdown"]
    needed = objects.seconds(shutdown["lame_duck"]) + objects.seconds(shutdown["drain"]) + STOP_MARGIN_SECONDS
    if int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M).group(1)) < needed:
        found.append(f"overdraft.service: TimeoutStopSec is shorter than the drain; expected {needed:g}")
    if objects.seconds(shutdown["drain"]) > SOCKET_DRAIN_SECONDS_MAX:
        found.append(f"overdraft.yaml: new clients wait at the socket for the whole drain; expected {SOCKET_DRAIN_SECONDS_MAX} s at most")
    return found

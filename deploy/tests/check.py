#!/usr/bin/env python3
"""Checks all that is deployed: chart, overlays, rules, dashboards, packages; and that planted mistakes are found.

check.py [--binary PROGRAM] [--promtool PROGRAM] [--venv FOLDER] [--strict] [--write]

Each check says `ok`, `FAILED` with what it found, or `skipped` with the tool that is missing. Nothing is installed
outside the virtual environment. Exit codes: 0 nothing found, 1 something found, or skipped with --strict.
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import tools  # noqa: E402

OVERLAYS = tools.DEPLOY / "kustomize" / "overlays"


class Report:
    """What was found, as it is found."""

    def __init__(self):
        self.failed = self.skipped = 0

    def run(self, name, check):
        """Runs a check: a function that returns or yields findings."""
        try:
            found = list(check())
        except tools.Missing as missing:
            self.skipped += 1
            print(f"skipped  {name}: {missing}")
            return
        if not found:
            print(f"ok       {name}")
            return
        self.failed += 1
        print(f"FAILED   {name}")
        for finding in found:
            print(f"         - {finding}")


def chart_checks(report, helm, binary):
    import objects
    import schemas
    for values in [None, *sorted((tools.CHART / "ci").glob("*-values.yaml"))]:
        files = [values] if values else []
        name = values.name if values else "values.yaml"
        for version in tools.HELM_VERSIONS:
            report.run(f"helm lint {version} {name}", lambda: helm.lint(tools.CHART, files, version))

        def rendered():
            texts = {version: helm.template(tools.CHART, files, helm=version) for version in tools.HELM_VERSIONS}
            manifests = [schemas.load(text) for text in texts.values()]
            order = lambda set_: sorted(set_, key=lambda one: (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace", "")))  # noqa: E731
            if order(manifests[0]) != order(manifests[1]):
                yield "Helm 3 and Helm 4 render it differently"
            yield from schemas.findings(manifests[0])
            yield from objects.findings(manifests[0], binary)
        report.run(f"manifests of {name} on Kubernetes {schemas.VERSIONS[0]} to {schemas.VERSIONS[-1]}", rendered)


def wheel_findings(binary):
    """The package that needs no rights; `cargo xtask release` proves the others as well."""
    import packages
    import sbom
    return packages.wheel_findings(Path(binary).resolve(), sbom.text())


def overlay_checks(report, binary):
    import objects
    import schemas
    for folder in sorted(path for path in OVERLAYS.iterdir() if path.is_dir()):
        def built(folder=folder):
            manifests = schemas.load(tools.kustomize(folder))
            return schemas.findings(manifests) + objects.findings(manifests, binary)
        report.run(f"kustomize {folder.name}", built)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="the program overdraft, to check configurations and to name metrics")
    parser.add_argument("--promtool", help="the program promtool; by default the one on the path")
    parser.add_argument("--venv", default=tools.ROOT / "target" / "deploy-venv", help="where Python packages are installed")
    parser.add_argument("--strict", action="store_true", help="a skipped check is a failure")
    parser.add_argument("--write", action="store_true", help="write the chart's README anew")
    arguments = parser.parse_args()
    report = Report()
    try:
        tools.enter_environment(arguments.venv)
    except tools.Missing as missing:
        print(f"skipped  all: {missing}")
        return int(arguments.strict)
    import cases
    import image
    import machine
    import plants
    import readme
    import watching
    report.run("README of the chart", lambda: readme.findings(arguments.write))
    known = watching.names_in_source()
    if arguments.binary:
        # Names and labels of a running gateway count more than those that the source names.
        report.run("a gateway to scrape", lambda: known.update(watching.names_of_binary(arguments.binary)) or [])
    report.run("rules name metrics, labels and runbooks that there are", lambda: watching.rule_findings(known))
    report.run("rules fire and stay quiet (promtool)", lambda: watching.promtool_findings(arguments.promtool))
    report.run("expressions of the write-ups fire above their threshold alone (promtool)", lambda: watching.write_up_findings(arguments.promtool))
    report.run("dashboards", lambda: watching.dashboard_findings(known))
    report.run("rules of prometheus-adapter", lambda: watching.adapter_findings(known))
    report.run("compose file", lambda: machine.compose_findings(arguments.binary))
    report.run("Containerfile", machine.container_findings)
    report.run("root file system of the image, from packages of Debian 12 and 13", image.findings)
    report.run("systemd units", machine.unit_findings)
    if arguments.binary:
        report.run("wheel: installed into a fresh environment, asked, ended, removed", lambda: wheel_findings(arguments.binary))
    overlay_checks(report, arguments.binary)
    try:
        helm = tools.Helm()
    except tools.Missing as missing:
        report.run("chart", lambda: (_ for _ in ()).throw(missing))
    else:
        chart_checks(report, helm, arguments.binary)
        report.run(f"{len(cases.CASES)} sets of values besides", lambda: cases.findings(helm))
        report.run(f"{plants.count()} planted mistakes are found", lambda: [*plants.chart_findings(helm), *plants.rule_findings(known), *plants.dashboard_findings(known), *plants.unit_findings()])
        helm.end()
    print(f"{report.failed} failed, {report.skipped} skipped")
    return int(report.failed > 0 or (arguments.strict and report.skipped > 0))


if __name__ == "__main__":
    sys.exit(main())

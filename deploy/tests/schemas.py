"""Schemas: manifests against the API of each Kubernetes version, and custom resources against their own."""
import functools
import json
from pathlib import Path

import jsonschema
import yaml

import tools

VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
CUSTOM = Path(__file__).parent / "crds"
CUSTOM_GROUPS = ("keda.sh", "monitoring.coreos.com")


@functools.lru_cache(maxsize=None)
def validator():
    try:
        import kubernetes_validate
    except ImportError:
        raise tools.Missing("the Python package kubernetes-validate is not installed") from None
    # It would parse a megabyte at every call.
    utils = kubernetes_validate.utils
    utils.schema_contents = functools.lru_cache(maxsize=None)(utils.schema_contents)
    return kubernetes_validate


def load(text):
    """The objects of a stream of manifests."""
    return [one for one in yaml.safe_load_all(text) if one]


def name_of(manifest):
    return f"{manifest.get('kind', '?')}/{manifest.get('metadata', {}).get('name', '?')}"


def custom(manifest):
    group, version = manifest["apiVersion"].split("/")
    path = CUSTOM / f"{manifest['kind'].lower()}-{group}-{version}.json"
    if not path.exists():
        return [f"{name_of(manifest)}: there is no schema of {manifest['apiVersion']}"]
    errors = jsonschema.Draft7Validator(json.loads(path.read_text())).iter_errors(manifest)
    return [f"{name_of(manifest)}: {'.'.join(map(str, error.path))}: {error.message[:200]}" for error in errors]


def findings(manifests, versions=VERSIONS):
    """What does not fit the API, each once with the versions that it does not fit."""
    found = {}
    for manifest in manifests:
        if "apiVersion" not in manifest or "kind" not in manifest:
            found.setdefault(f"{name_of(manifest)}: no apiVersion or kind", []).append("any")
            continue
        if manifest["apiVersion"].split("/")[0] in CUSTOM_GROUPS:
            for finding in custom(manifest):
                found.setdefault(finding, []).append("custom")
            continue
        for version in versions:
            try:
                validator().validate(manifest, version, strict=True)
            except validator().ValidationError as error:
                where = ".".join(map(str, error.path))
                found.setdefault(f"{name_of(manifest)}: {where}: {error.message[:200]}", []).append(version)
            except validator().SchemaNotFoundError as error:
                found.setdefault(f"{name_of(manifest)}: {manifest['apiVersion']} is not served", []).append(version)
    return [f"{finding} ({', '.join(where)})" for finding, where in found.items()]

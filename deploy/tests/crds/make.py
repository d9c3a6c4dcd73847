#!/usr/bin/env python3
"""Makes the JSON schemas in this folder from the CustomResourceDefinitions of KEDA and prometheus-operator.

make.py CRD.yaml...    writes {kind}-{group}-{version}.json for each version of each definition

Descriptions are dropped, an int-or-string becomes either type, and objects are closed, as the API server's pruning
would have it. Rules in CEL and defaults are left out: these schemas only find what does not belong.
"""
import json
import sys
from pathlib import Path

import yaml

KEPT = ("type", "properties", "items", "required", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def closed(schema):
    """The schema of a node, as strict as the API server is."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    out = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema:
        out["properties"] = {name: closed(part) for name, part in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            out["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = closed(schema["additionalProperties"])
    if "items" in schema:
        out["items"] = closed(schema["items"])
    return out


def main():
    for path in sys.argv[1:]:
        for definition in yaml.safe_load_all(Path(path).read_text()):
            group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
            for version in definition["spec"]["versions"]:
                schema = closed(version["schema"]["openAPIV3Schema"])
                # Metadata is the API server's own.
                schema["properties"]["metadata"] = {"type": "object"}
                name = f"{kind.lower()}-{group}-{version['name']}.json"
                (Path(__file__).parent / name).write_text(json.dumps(schema, separators=(",", ":"), sort_keys=True) + "\n")
                print(name)


if __name__ == "__main__":
    main()

"""README of the chart: a table of its values, made from the comments of values.yaml."""
import json
import re

import tools

HEAD = """# Overdraft chart

The gateway, and optionally pools of vLLM behind it. [The guide](../../../docs/guide/kubernetes.md) says how to install,
size, upgrade and watch it; `ci/` has a file of values for each use. Needs Kubernetes 1.30 and Helm 3 or 4.

```console
$ kubectl create secret generic overdraft-admin --from-literal=token="$(openssl rand -hex 32)"
$ helm install overdraft deploy/helm/overdraft --set redis.url=redis://redis:6379/0 -f my-values.yaml
$ helm test overdraft
```

## Values

Made by `cargo xtask deploy --write` from `values.yaml`; `values.schema.json` refuses unknown keys and wrong types.

| key | default | meaning |
|---|---|---|
"""


def entries():
    """Keys with a `# --` comment: path, default, text."""
    path, comment, indents = [], None, []
    for line in (tools.CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        if text.startswith("# -- "):
            comment = text[5:]
        elif text.startswith("# ") and comment is not None:
            comment += " " + text[2:]
        match = re.match(r"^( *)([A-Za-z]+):(.*)$", line)
        if not match:
            if not text.startswith("#"):
                comment = None
            continue
        indent = len(match.group(1))
        while indents and indents[-1] >= indent:
            indents.pop(), path.pop()
        indents.append(indent), path.append(match.group(2))
        if comment is not None:
            yield ".".join(path), match.group(3).strip(), comment
            comment = None


def text():
    rows = []
    for key, default, comment in entries():
        shown = f"`{default}`" if default and default != '""' else ""
        rows.append(f"| `{key}` | {shown} | {comment.replace('|', chr(92) + '|')} |")
    return HEAD + "\n".join(rows) + "\n"


def findings(write=False):
    path = tools.CHART / "README.md"
    if write:
        path.write_text(text())
    found = [] if path.exists() and path.read_text() == text() else ["README.md of the chart is out of date: run `cargo xtask deploy --write`"]
    return found + list(undescribed())


def undescribed():
    """Keys of the schema without a comment, and comments of keys that the schema refuses."""
    schema = json.loads((tools.CHART / "values.schema.json").read_text())
    told = [key for key, _, _ in entries()]
    known = set(leaves(schema, ""))
    for key in told:
        if key not in known:
            yield f"values.yaml: {key} is not in values.schema.json"
    for key in known:
        is_told = any(key == own or key.startswith(own + ".") or own.startswith(key + ".") for own in told)
        if not is_told and not key.startswith("pools."):
            yield f"values.schema.json: {key} has no comment in values.yaml"


def leaves(schema, path):
    for name, part in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield below
        yield from leaves(part, below)

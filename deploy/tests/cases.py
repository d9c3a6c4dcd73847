"""Values that users set, beside those of `ci/`: what is rendered of them passes the lints, as the real files do."""
import objects
import schemas
import tools

# What is set, beside `ci/default-values.yaml`.
CASES = {
    "a gateway with keys": {"config": {"keys": [{"key": "${KEY_ACME}", "tenant": "acme"}]}, "test": {"apiKeySecret": {"name": "keys", "key": "acme"}}},
    "a gateway with TLS": {"config": {"tls": {"certificate_file": "/tls/tls.crt", "key_file": "/tls/tls.key"}}},
    "a gateway that asks clients for certificates": {
        "config": {"tls": {"certificate_file": "/tls/tls.crt", "key_file": "/tls/tls.key", "client_ca_file": "/tls/ca.crt"}}},
    "a pool of our own workers": {"pools": {"cpu": {"engine": "overdraft", "model": "/models/qwen2.5-1.5b.gguf", "gpus": 0}}},
    "a pool of our own workers by another name": {"pools": {"cpu": {"engine": "overdraft", "model": "/models/a.gguf", "servedModelName": "qwen", "gpus": 0}}},
    "pools that are scaled apart": {
        "keda": {"enabled": True},
        "pools": {"one": {"model": "m", "autoscaling": {"enabled": True}}, "two": {"model": "n", "autoscaling": {"enabled": True}}, "third": {"model": "m"},
                  "draft": {"model": "m", "role": "draft", "autoscaling": {"enabled": True, "mode": "prometheus"}}}},
    "what the chart derives, said again": {
        "shutdown": {"drainSeconds": 1200}, "ports": {"http": 9000, "scaler": 9998}, "scaler": {"enabled": True},
        "config": {"listen": "0.0.0.0:9000", "shutdown": {"drain": "1200s"}, "scaling": {"listen": "0.0.0.0:9998", "kv_target": "60%"}}},
    "a share in percent, for KEDA by Prometheus": {
        "keda": {"enabled": True}, "pools": {"one": {"model": "m", "autoscaling": {"enabled": True, "mode": "prometheus", "kvTarget": "65%"}}}},
    "a gateway by another name, with alerts": {
        "fullnameOverride": "llm-gateway", "monitoring": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}, "rules": {"enabled": True}}},
    "a gateway on nodes of its own, asked by another name": {
        "nodeSelector": {"role": "gateway"}, "tolerations": [{"key": "gateway", "operator": "Exists"}], "imagePullSecrets": [{"name": "registry"}],
        "config": {"admin": {"hosts": ["gateway.ops.example"]}}},
    "a closed network with tokens, sentinels and pools": {
        "networkPolicy": {"enabled": True, "redisExtraPorts": [26379], "kubelets": ["10.0.0.0/8", "fd00::/8"]}, "pools": {"one": {"model": "m"}},
        "redis": {"url": "redis+sentinel://redis:26379/main"},
        "config": {"jwt": {"issuer": "https://id.example", "audience": "a", "jwks_url": "https://id.example:8443/keys"}}},
    "the same with keys at the usual port": {
        "networkPolicy": {"enabled": True, "issuer": [{"ipBlock": {"cidr": "203.0.113.7/32"}}]},
        "config": {"jwt": {"issuer": "https://id.example", "audience": "a", "jwks_url": "https://id.example/keys"}}},
    "a network of IPv6": {
        "listenAddress": "[::]", "networkPolicy": {"enabled": True, "kubelets": ["fd00::/8"]},
        "pools": {"one": {"model": "m", "servedModelName": "large: best"}, "cpu": {"role": "draft", "engine": "overdraft", "gpus": 0}}},
    "DNS of OpenShift": {"networkPolicy": {"enabled": True, "dnsPorts": [5353]}},
    "all pods replaced at once": {"updateStrategy": {"type": "Recreate"}, "pools": {"one": {"model": "m", "updateStrategy": {"type": "Recreate"}}}},
    "a network policy without scrapers": {"networkPolicy": {"enabled": True, "clients": [{"podSelector": {}}], "scrapers": []}},
}


# Second steps of an installation, as the guide has them: what is set before, and what is set then.
STEPS = {
    "KEDA turned on once the gateway is ready": (
        {"pools": {"one": {"model": "m", "replicas": 6, "autoscaling": {"enabled": True}}}}, {"keda": {"enabled": True}}),
}


def step_findings(helm):
    """A Deployment that names `replicas` before a step and no more after it is set back to one, under the pods that run."""
    base = [tools.CHART / "ci" / "default-values.yaml"]
    for name, (before, then) in STEPS.items():
        counts = []
        for values in (before, {**before, **then}):
            manifests = schemas.load(helm.template(tools.CHART, base, values))
            counts.append({one["metadata"]["name"]: one["spec"].get("replicas") for one in objects.kind(manifests, "Deployment")})
        for workload, count in counts[0].items():
            if count is not None and counts[1].get(workload) is None:
                yield f"{name}: {workload} has replicas: {count} before, and none after, which makes it one"


# Releases side by side: release, namespace and values of each.
NEIGHBOURS = {
    "one name in two namespaces, and workers in a third": [
        ("gateway", namespace, {"config": {"discovery": [{"kubernetes": {"namespace": "inference", "service": "vllm", "port": "http"}}]}})
        for namespace in ("staging", "production")],
    "two releases in one namespace": [
        (release, "llm", {"pools": {"one": {"model": "m"}}, "monitoring": {"serviceMonitor": {"enabled": True}}}) for release in ("a", "b")],
}


def neighbour_findings(helm):
    """Objects of two releases by one name, for which Helm refuses the second release; and pods that both select."""
    base = [tools.CHART / "ci" / "default-values.yaml"]
    for name, releases in NEIGHBOURS.items():
        manifests = []
        for release, namespace, values in releases:
            manifests += schemas.load(helm.template(tools.CHART, base, values, release=release, namespace=namespace))
        # Selectors end at their namespace.
        lints = [objects.duplicates] + [objects.selectors] * (len({namespace for _, namespace, _ in releases}) == 1)
        yield from (f"{name}: {finding}" for lint in lints for finding in lint(manifests))


def findings(helm):
    yield from step_findings(helm)
    yield from neighbour_findings(helm)
    for name, values in CASES.items():
        try:
            manifests = schemas.load(helm.template(tools.CHART, [tools.CHART / "ci" / "default-values.yaml"], values))
        except tools.HelmError as error:
            yield f"{name}: {error}"
            continue
        for finding in [*schemas.findings(manifests, schemas.VERSIONS[-1:]), *objects.findings(manifests)]:
            yield f"{name}: {finding}"

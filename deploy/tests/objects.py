"""Lints across objects: ports by name, selectors, rights, probes, grace periods, scaling; what no schema sees."""
import re
import subprocess
import tempfile
from pathlib import Path

import yaml

import tools
from schemas import name_of

PROBE_PATHS = {"gateway": {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"},
               "engine": {"startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/health"}}
ENDPOINTSLICES = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]}
SCALER_KEYS = {"scalerAddress", "pool", "model", "kvTarget", "queueTarget", "runningTarget"}
GRACE_MARGIN_SECONDS = 5
# A gateway that has cut requests waits this long for the scrape that tells of them.
LAST_SCRAPE_SECONDS = 20
PROBE_SECONDS_MIN = 30
# Of Services, and of the pods behind OpenShift's.
DNS_PORTS = (53, 5353)


def kind(manifests, *kinds):
    return [one for one in manifests if one["kind"] in kinds]


def labels_of(workload):
    return workload["spec"]["template"]["metadata"].get("labels", {})


def fits(selector, labels):
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def ports_of(workload):
    return {port.get("name") for one in workload["spec"]["template"]["spec"]["containers"] for port in one.get("ports", [])}


def component(workload):
    return labels_of(workload).get("app.kubernetes.io/component")


def seconds(text):
    number, unit = re.fullmatch(r"([0-9.]+)(ms|s|m|h)", text).groups()
    return float(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def config_of(manifests):
    """The gateway's configuration, or nothing."""
    for one in kind(manifests, "ConfigMap"):
        if "overdraft.yaml" in one.get("data", {}):
            return yaml.safe_load(one["data"]["overdraft.yaml"])
    return None


def duplicates(manifests):
    seen = set()
    for one in manifests:
        key = (one["apiVersion"], one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        if key in seen:
            yield f"{name_of(one)} is there twice"
        seen.add(key)


def services(manifests):
    """Selectors that select, and target ports that the selected pods have."""
    workloads = kind(manifests, "Deployment")
    for one in kind(manifests, "Service"):
        selected = [work for work in workloads if fits(one["spec"].get("selector"), labels_of(work))]
        if not selected:
            yield f"{name_of(one)}: its selector selects no pods"
        for port in one["spec"]["ports"]:
            for work in selected:
                if port.get("targetPort") not in ports_of(work):
                    yield f"{name_of(one)}: targetPort {port.get('targetPort')} is not a port of {name_of(work)}"


def selectors(manifests):
    """Deployments select their own pods, by labels that no upgrade changes."""
    workloads = kind(manifests, "Deployment")
    for one in workloads:
        selector = one["spec"]["selector"]["matchLabels"]
        if not fits(selector, labels_of(one)):
            yield f"{name_of(one)}: its selector does not select its own pods"
        for label in ("helm.sh/chart", "app.kubernetes.io/version"):
            if label in selector:
                yield f"{name_of(one)}: it selects by {label}, which an upgrade changes"
        others = [work for work in workloads if work is not one and fits(selector, labels_of(work))]
        for other in others:
            yield f"{name_of(one)}: its selector selects pods of {name_of(other)} too"
    for one in kind(manifests, "PodDisruptionBudget"):
        if not any(fits(one["spec"]["selector"]["matchLabels"], labels_of(work)) for work in workloads):
            yield f"{name_of(one)}: its selector selects no pods"
        if one["spec"].get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
            yield f"{name_of(one)}: pods that are not ready block the drain of a node"


def strategies(manifests):
    """The API refuses the figures of a rolling update where pods are replaced all at once."""
    for one in kind(manifests, "Deployment"):
        strategy = one["spec"].get("strategy", {})
        if strategy.get("type") == "Recreate" and "rollingUpdate" in strategy:
            yield f"{name_of(one)}: its strategy is Recreate, with figures of a rolling update"


def monitors(manifests):
    """Monitors find a port by its name: with a wrong one they are accepted and scrape nothing."""
    for one in kind(manifests, "ServiceMonitor"):
        found = [own for own in kind(manifests, "Service")
                 if fits(one["spec"]["selector"]["matchLabels"], own["metadata"].get("labels", {}))]
        names = {port.get("name") for own in found for port in own["spec"]["ports"]}
        for endpoint in one["spec"]["endpoints"]:
            if endpoint.get("port") not in names:
                yield f"{name_of(one)}: no selected Service has a port named {endpoint.get('port')}"
        for own in found:
            if not own["spec"].get("publishNotReadyAddresses"):
                yield f"{name_of(own)}: without publishNotReadyAddresses no scrape finds a gateway that drains, and none tells what it cut"
    for one in kind(manifests, "PodMonitor"):
        found = [work for work in kind(manifests, "Deployment") if fits(one["spec"]["selector"]["matchLabels"], labels_of(work))]
        names = set().union(*map(ports_of, found)) if found else set()
        for endpoint in one["spec"]["podMetricsEndpoints"]:
            if endpoint.get("port") not in names:
                yield f"{name_of(one)}: no selected pod has a port named {endpoint.get('port')}"
        if any(component(work) == "engine" for work in found) and not one["metadata"]["name"].endswith("-engines"):
            yield f"{name_of(one)}: its name is its targets' job, and alerts take a job without -engines for gateways"


def alerts(manifests):
    """Alerts on scrapes look for the gateways' jobs by name. A job is called as its Service, or as its namespace and PodMonitor."""
    jobs = [own["metadata"]["name"] for one in kind(manifests, "ServiceMonitor") for own in kind(manifests, "Service")
            if fits(one["spec"]["selector"]["matchLabels"], own["metadata"].get("labels", {}))]
    jobs += [f"{one['metadata'].get('namespace')}/{one['metadata']['name']}" for one in kind(manifests, "PodMonitor")
             if not one["metadata"]["name"].endswith("-engines")]
    for one in kind(manifests, "PrometheusRule"):
        for rule in (rule for group in one["spec"]["groups"] for rule in group["rules"]):
            for pattern in re.findall(r'up\{job=~"([^"]+)"', rule["expr"]):
                for job in jobs:
                    if not re.fullmatch(pattern, job):
                        yield f"{name_of(one)}: {rule['alert']} looks for jobs {pattern}, and the gateways' is {job}"


def policies(manifests):
    """Named ports of network policies are ports of pods; names resolve over UDP and TCP."""
    for one in kind(manifests, "NetworkPolicy"):
        selector = one["spec"]["podSelector"].get("matchLabels", {})
        own = [work for work in kind(manifests, "Deployment") if fits(selector, labels_of(work))]
        if not own:
            yield f"{name_of(one)}: it is for no pods"
        names = set().union(*map(ports_of, own)) if own else set()
        for rule in one["spec"].get("ingress", []):
            for port in rule.get("ports", []):
                if isinstance(port.get("port"), str) and port["port"] not in names:
                    yield f"{name_of(one)}: {port['port']} is not a port of the pods"
        if "Egress" in one["spec"].get("policyTypes", []):
            named = {port.get("protocol") for rule in one["spec"].get("egress", []) for port in rule.get("ports", []) if port.get("port") in DNS_PORTS}
            if named != {"UDP", "TCP"}:
                yield f"{name_of(one)}: names resolve over UDP and TCP, port 53 or OpenShift's 5353; it opens {sorted(map(str, named))}"


def closed(manifests):
    """Where the gateway is behind a policy, its own workers are as well: they ask nobody for a key."""
    policies_all = kind(manifests, "NetworkPolicy")

    def is_behind_one(work):
        return any(fits(one["spec"]["podSelector"].get("matchLabels"), labels_of(work)) and
                   all("from" in rule for rule in one["spec"].get("ingress", [])) for one in policies_all)
    if any("admin" in str(one["spec"].get("ingress")) for one in policies_all):
        for work in kind(manifests, "Deployment"):
            if component(work) in ("engine", "store") and not is_behind_one(work):
                yield f"{name_of(work)}: no policy keeps other pods from it, past the gateway's keys and budgets"


def opened(manifests):
    """A policy lets the gateway fetch the keys of who issues tokens."""
    place = ((config_of(manifests) or {}).get("jwt") or {}).get("jwks_url")
    if not place:
        return
    wanted = int((re.match(r"https://[^/:]+:(\d+)", place) or [None, 443])[1])
    for one in kind(manifests, "NetworkPolicy"):
        rules = one["spec"].get("egress", [])
        if "Egress" in one["spec"].get("policyTypes", []) and not any(port.get("port") == wanted for rule in rules for port in rule.get("ports", [])):
            yield f"{name_of(one)}: the issuer's keys are at port {wanted}, which it does not open: every token gets 503"


def rights(manifests):
    """Discovery needs to get, list and watch EndpointSlices where the service is, and nothing else."""
    config = config_of(manifests) or {}
    wanted = {own["kubernetes"]["namespace"] for own in config.get("discovery", []) if "kubernetes" in own}
    gateways = [work for work in kind(manifests, "Deployment") if component(work) == "gateway"]
    for one in kind(manifests, "Role", "ClusterRole"):
        for rule in one["rules"]:
            if {key: sorted(value) for key, value in rule.items()} != ENDPOINTSLICES:
                yield f"{name_of(one)}: it grants {rule}; expected exactly {ENDPOINTSLICES}"
    for gateway in gateways:
        spec, home = gateway["spec"]["template"]["spec"], gateway["metadata"].get("namespace")
        if wanted and spec.get("automountServiceAccountToken") is False:
            yield f"{name_of(gateway)}: discovery needs the token of the ServiceAccount, which is not mounted"
        for namespace in wanted:
            roles = [one["metadata"]["name"] for one in kind(manifests, "Role") if one["metadata"].get("namespace") == namespace]
            bound = [one for one in kind(manifests, "RoleBinding") if one["metadata"].get("namespace") == namespace
                     and one["roleRef"]["name"] in roles
                     and any(own["name"] == spec.get("serviceAccountName") and own.get("namespace") == home for own in one["subjects"])]
            if not bound:
                yield f"{name_of(gateway)}: no RoleBinding in {namespace} lets {spec.get('serviceAccountName')} of {home} discover there"


def accounts(manifests):
    there = {(one["metadata"].get("namespace"), one["metadata"]["name"]) for one in kind(manifests, "ServiceAccount")}
    for one in kind(manifests, "Deployment"):
        name = one["spec"]["template"]["spec"].get("serviceAccountName")
        if name and there and (one["metadata"].get("namespace"), name) not in there:
            yield f"{name_of(one)}: the ServiceAccount {name} is not there"


def probes(manifests):
    """Each probe asks its own path of a port that is there, and gives a busy process time."""
    for one in kind(manifests, "Deployment"):
        for probe, path in PROBE_PATHS.get(component(one), {}).items():
            container = one["spec"]["template"]["spec"]["containers"][0]
            own = container.get(probe)
            if own is None:
                yield f"{name_of(one)}: no {probe}"
                continue
            if own["httpGet"]["path"] != path:
                yield f"{name_of(one)}: {probe} asks {own['httpGet']['path']}; expected {path}"
            port = "admin" if component(one) == "gateway" else "http"
            if own["httpGet"]["port"] != port or port not in ports_of(one):
                yield f"{name_of(one)}: {probe} asks the port {own['httpGet']['port']}; expected {port}"
            if probe == "livenessProbe" and own.get("periodSeconds", 10) * own.get("failureThreshold", 3) < PROBE_SECONDS_MIN:
                yield f"{name_of(one)}: livenessProbe kills in less than {PROBE_SECONDS_MIN} s"


def placing(manifests):
    """The chart's test runs where its gateway may run, or it waits for a node until it fails."""
    gateways = [one["spec"]["template"]["spec"] for one in kind(manifests, "Deployment") if component(one) == "gateway"]
    for one in kind(manifests, "Pod"):
        for key in ("nodeSelector", "tolerations", "imagePullSecrets"):
            if any(spec.get(key) != one["spec"].get(key) for spec in gateways):
                yield f"{name_of(one)}: its {key} differ from the gateway's"


def hosts(manifests):
    """Operators may ask the gateway by every name of its admin Service."""
    told = ((config_of(manifests) or {}).get("admin") or {}).get("hosts", [])
    for one in kind(manifests, "Service"):
        name, labels = one["metadata"]["name"], one["metadata"].get("labels", {})
        if labels.get("app.kubernetes.io/component") == "admin" and name not in told:
            yield f"{name_of(one)}: admin.hosts does not have its name, by which operators ask"


def graces(manifests):
    """The clock of the grace period starts before the preStop hook, and must outlast everything behind it."""
    shutdown = (config_of(manifests) or {}).get("shutdown", {})
    for one in kind(manifests, "Deployment"):
        spec = one["spec"]["template"]["spec"]
        container = spec["containers"][0]
        hook = container.get("lifecycle", {}).get("preStop", {})
        if "exec" in hook:
            yield f"{name_of(one)}: a preStop hook by exec needs a shell or `sleep` in the image"
        needed = hook.get("sleep", {}).get("seconds", 0) + GRACE_MARGIN_SECONDS
        if component(one) == "gateway":
            needed += seconds(shutdown.get("lame_duck", "0s")) + seconds(shutdown.get("drain", "30s")) + LAST_SCRAPE_SECONDS
        else:
            told = [arg.split("=", 1)[1] for arg in container.get("args", []) if arg.startswith("--shutdown-timeout=")]
            needed += float(told[0]) if told else 0
        if spec.get("terminationGracePeriodSeconds", 30) < needed:
            yield f"{name_of(one)}: terminationGracePeriodSeconds is {spec.get('terminationGracePeriodSeconds', 30)}; expected at least {needed:g}"


def security(manifests):
    """The gateway and its test meet the `restricted` standard; engines run as nobody in particular."""
    pods = [(one, one["spec"]["template"]["spec"]) for one in kind(manifests, "Deployment")]
    pods += [(one, one["spec"]) for one in kind(manifests, "Pod")]
    for one, spec in pods:
        own = spec.get("securityContext", {})
        if not own.get("runAsNonRoot") or not own.get("runAsUser"):
            yield f"{name_of(one)}: it does not run as a numbered user who is not root"
        if own.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name_of(one)}: no seccompProfile RuntimeDefault"
        for container in spec["containers"]:
            inner = container.get("securityContext", {})
            if inner.get("allowPrivilegeEscalation") is not False or inner.get("capabilities", {}).get("drop") != ["ALL"]:
                yield f"{name_of(one)}: {container['name']} may gain privileges"
            is_engine = one["kind"] == "Deployment" and component(one) == "engine"
            if not is_engine and not inner.get("readOnlyRootFilesystem"):
                yield f"{name_of(one)}: {container['name']} may write to its root"
            image = container["image"]
            if "@sha256:" not in image and (":" not in image or image.endswith(":latest")):
                yield f"{name_of(one)}: the image {image} has no version"


def mounts(manifests):
    there = {(one["kind"], one["metadata"]["name"]) for one in manifests}
    for one in kind(manifests, "Deployment"):
        spec = one["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
        for container in spec["containers"]:
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"{name_of(one)}: it mounts {mount['name']}, which is no volume"
                if "subPath" in mount:
                    yield f"{name_of(one)}: what is mounted by subPath never changes"
        for volume in volumes.values():
            if "configMap" in volume and ("ConfigMap", volume["configMap"]["name"]) not in there:
                yield f"{name_of(one)}: the ConfigMap {volume['configMap']['name']} is not there"


def gpus(manifests):
    for one in kind(manifests, "Deployment"):
        spec = one["spec"]["template"]["spec"]
        container = spec["containers"][0]
        count = int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))
        mounted = {mount["mountPath"] for mount in container.get("volumeMounts", [])}
        if count > 1 and "/dev/shm" not in mounted:
            yield f"{name_of(one)}: {count} GPUs talk through shared memory, and /dev/shm has 64 MB"
        strategy = one["spec"].get("strategy", {})
        if count > 0 and strategy.get("type") != "Recreate" and strategy.get("rollingUpdate", {}).get("maxSurge") != 0:
            yield f"{name_of(one)}: a roll-out with a surge waits for a GPU that may not be there"


def pools(manifests):
    """What the gateway expects of a pool's workers, they do: serve its model, and publish what their caches hold."""
    workloads = {one["metadata"]["name"]: one for one in kind(manifests, "Deployment")}
    for source in (config_of(manifests) or {}).get("discovery", []):
        own = source.get("kubernetes", {})
        if own.get("service") not in workloads:
            continue
        container = workloads[own["service"]]["spec"]["template"]["spec"]["containers"][0]
        flags = dict(arg.lstrip("-").partition("=")[::2] for arg in container["args"] if arg.startswith("--"))
        if "[" in (config_of(manifests) or {}).get("listen", "") and ":" not in flags.get("host", flags.get("listen", "").rpartition(":")[0]):
            yield f"{name_of(workloads[own['service']])}: the gateway is in a network of IPv6, where this listens on IPv4 alone"
        model = container["args"][0] if container.get("command") else Path(flags.get("model", "")).stem
        if own.get("model") and own["model"] != flags.get("served-model-name", model):
            yield f"{name_of(workloads[own['service']])}: the gateway expects {own['model']} of it, which it does not serve"
        if "kv_events" in own.get("each", {}) and "kv-events-config" not in flags:
            yield f"{name_of(workloads[own['service']])}: the gateway expects KV events of it, which it does not publish"


def scaling(manifests):
    """Autoscalers: one to a target, targets that exist, text in metadata, shares by value, no silent zero."""
    workloads = {one["metadata"]["name"]: one for one in kind(manifests, "Deployment")}
    targets = [(one, one["spec"]["scaleTargetRef"]["name"]) for one in kind(manifests, "HorizontalPodAutoscaler", "ScaledObject")]
    for one, target in targets:
        if target not in workloads:
            yield f"{name_of(one)}: it scales {target}, which is not there"
        elif "replicas" in workloads[target]["spec"]:
            yield f"{name_of(one)}: {target} says `replicas` itself, so each upgrade resets them"
        if sum(1 for _, other in targets if other == target) > 1:
            yield f"{name_of(one)}: {target} has two autoscalers"
    for one in kind(manifests, "ScaledObject"):
        if one["spec"].get("fallback", {}).get("behavior") != "currentReplicasIfHigher":
            yield f"{name_of(one)}: its fallback would shrink a pool that is larger"
        for trigger in one["spec"]["triggers"]:
            yield from (f"{name_of(one)}: {finding}" for finding in trigger_findings(trigger, manifests))


def trigger_findings(trigger, manifests):
    metadata = trigger["metadata"]
    for key, value in metadata.items():
        if not isinstance(value, str):
            yield f"the metadata {key} is {value!r}; expected text"
    if trigger["type"] == "prometheus":
        if metadata.get("ignoreNullValues") != "false":
            yield 'without `ignoreNullValues: "false"` an empty answer is zero'
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", str(metadata["threshold"])):
            yield f"KEDA reads a number as threshold, which {metadata['threshold']} is not"
        if not re.search(r'pod=~"[^"]+"', metadata["query"]):
            yield "its query takes the load of all gateways of the namespace, those of other releases too"
        if "kv_use" in metadata["query"] and trigger.get("metricType") != "Value":
            yield "a share of the cache by AverageValue is divided by the replicas; expected metricType Value"
    else:
        for key in set(metadata) - SCALER_KEYS:
            yield f"the scaler refuses the key {key}"
        host, _, port = metadata["scalerAddress"].rpartition(":")
        found = [one for one in kind(manifests, "Service") if host.split(".")[0] == one["metadata"]["name"]]
        if not any(str(own["port"]) == port for one in found for own in one["spec"]["ports"]):
            yield f"no Service is at {metadata['scalerAddress']}"
        if not all(one["spec"].get("publishNotReadyAddresses") for one in found):
            yield "KEDA must find the scaler before the gateway is ready: publishNotReadyAddresses"


def tests(manifests):
    """The chart's own test asks as the gateway is asked: by its scheme, with a key, past its network policy."""
    config = config_of(manifests) or {}
    scheme = "https" if config.get("tls") else "http"
    for one in kind(manifests, "Pod"):
        container, labels = one["spec"]["containers"][0], one["metadata"]["labels"]
        url = next(arg for arg in container["args"] if "://" in arg)
        if not url.startswith(f"{scheme}://") or (scheme == "https" and "--insecure" not in container["args"]):
            yield f"{name_of(one)}: it asks {url}; expected {scheme}, and --insecure with it where that is https"
        if config.get("keys") and "OPENAI_API_KEY" not in {own["name"] for own in container.get("env", [])}:
            yield f"{name_of(one)}: it shows no key to a gateway with keys"
        if (config.get("tls") or {}).get("client_ca_file"):
            yield f"{name_of(one)}: it has no certificate for a gateway that asks clients for theirs"
        gateways = [work for work in kind(manifests, "Deployment") if component(work) == "gateway"]
        for policy in kind(manifests, "NetworkPolicy"):
            if not any(fits(policy["spec"]["podSelector"].get("matchLabels"), labels_of(work)) for work in gateways):
                continue
            rules = [rule for rule in policy["spec"].get("ingress", []) if {"protocol": "TCP", "port": "http"} in rule["ports"]]
            sources = [source for rule in rules for source in rule.get("from", [])]
            lets_in = any(fits(source.get("podSelector", {}).get("matchLabels"), labels) for source in sources)
            if not lets_in and all("from" in rule for rule in rules):
                yield f"{name_of(policy)}: it keeps {name_of(one)} from the clients' port"


def clients_port(manifests):
    """Metrics and /admin are not where clients are."""
    config = config_of(manifests)
    if config is None:
        return
    if not config.get("admin", {}).get("listen"):
        yield "the configuration has no admin.listen: probes and metrics share the clients' connections"
    if not config.get("admin", {}).get("token"):
        yield "the configuration has no admin.token: every container of the pod is an operator"


def binary(manifests, program):
    """What the gateway itself has against its configuration and its flags."""
    config = config_of(manifests)
    if config is None or not program:
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "overdraft.yaml"
        path.write_text(yaml.safe_dump(config))
        names = set(re.findall(r"\$\{([A-Z0-9_]+)\}", path.read_text()))
        # A placeholder that is good wherever a secret may stand.
        environment = {name: "redis://placeholder:6379" if "STORE" in name else "a-placeholder-of-32-characters-00" for name in names}
        made = subprocess.run([program, "check", "--offline", "--config", str(path)], capture_output=True, text=True, env=environment, timeout=60)
    return [] if made.returncode == 0 else [f"overdraft check: {(made.stdout + made.stderr).strip()}"]


def flags(manifests):
    """Flags of our own image that its command line does not know."""
    known = set(re.findall(r"(--[a-z][a-z0-9-]+)", (tools.ROOT / "docs" / "reference" / "cli.md").read_text()))
    for one in kind(manifests, "Deployment", "Pod"):
        spec = one["spec"].get("template", one)["spec"]
        for container in spec["containers"]:
            if container.get("command"):
                continue
            for flag in (arg.split("=")[0] for arg in container.get("args", []) if arg.startswith("--")):
                if flag not in known:
                    yield f"{name_of(one)}: {flag} is not a flag of docs/reference/cli.md"


LINTS = (duplicates, services, selectors, strategies, monitors, alerts, policies, closed, opened, rights, accounts, probes, placing, hosts, graces, security, mounts, gpus,
         pools, scaling, tests, clients_port, flags)


def findings(manifests, program=None):
    """What is wrong between the objects of one set."""
    found = [finding for lint in LINTS for finding in lint(manifests)]
    return found + binary(manifests, program)

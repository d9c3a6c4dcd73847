"""Planted mistakes: each must be found by the same checks that pass the real files."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import machine
import objects
import schemas
import tools
import watching

# What is done to a copy of the chart, with which values, and a word of the finding.
CHART_PLANTS = (
    ("a wrong port name in the ServiceMonitor", "templates/monitoring.yaml", ("  endpoints:\n    - port: admin", "  endpoints:\n    - port: metrics"), "prometheus", "no selected Service has a port named metrics"),
    ("a wrong port name in the PodMonitor", "templates/monitoring.yaml", ("  podMetricsEndpoints:\n    - port: admin", "  podMetricsEndpoints:\n    - port: metrics"), "locked", "no selected pod has a port named metrics"),
    ("a drain that no scrape sees", "templates/service.yaml", ("  publishNotReadyAddresses: true\n  selector:\n    {{- include \"overdraft.selectorLabels\" (dict \"root\" . \"component\" \"gateway\") | nindent 4 }}\n  ports:\n    - name: admin", "  selector:\n    {{- include \"overdraft.selectorLabels\" (dict \"root\" . \"component\" \"gateway\") | nindent 4 }}\n  ports:\n    - name: admin"), "prometheus", "no scrape finds a gateway that drains"),
    ("engines in a job like the gateways'", "templates/monitoring.yaml", ("name: {{ include \"overdraft.fullname\" $ }}-engines", "name: {{ include \"overdraft.fullname\" $ }}-workers"), "prometheus", "take a job without -engines for gateways"),
    ("a wrong target port", "templates/service.yaml", ("targetPort: http\n", "targetPort: web\n"), "default", "targetPort web"),
    ("a missing verb", "templates/rbac.yaml", ("[get, list, watch]", "[get, list]"), "fleet", "expected exactly"),
    ("a verb too many", "templates/rbac.yaml", ("[get, list, watch]", "[get, list, watch, patch]"), "fleet", "expected exactly"),
    ("a wrong API group", "templates/rbac.yaml", ("[discovery.k8s.io]", '[""]'), "fleet", "expected exactly"),
    ("a RoleBinding in the wrong namespace", "templates/rbac.yaml", ("    namespace: {{ $.Release.Namespace }}", "    namespace: {{ . }}"), "fleet", "no RoleBinding"),
    ("a ServiceAccount without its token", "templates/deployment.yaml", ("automountServiceAccountToken: {{ not (empty (include \"overdraft.namespaces\" . | fromYamlArray)) }}", "automountServiceAccountToken: false"), "fleet", "not mounted"),
    ("a readiness probe of the fleet", "templates/deployment.yaml", ("path: /readyz", "path: /healthz"), "default", "readinessProbe asks /healthz"),
    ("a liveness probe where clients are", "templates/deployment.yaml", ("livenessProbe:\n            httpGet: {path: /livez, port: admin}", "livenessProbe:\n            httpGet: {path: /livez, port: http}"), "default", "livenessProbe asks the port http"),
    ("a hasty liveness probe", "values.yaml", ("liveness: {periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}", "liveness: {periodSeconds: 5, timeoutSeconds: 1, failureThreshold: 3}"), "default", "kills in less than"),
    ("a grace period without the hook", "templates/_helpers.tpl", ("add .preStopSeconds .lameDuckSeconds .drainSeconds .marginSeconds", "add .lameDuckSeconds .drainSeconds"), "default", "terminationGracePeriodSeconds"),
    ("a grace period without a last scrape", "values.yaml", ("marginSeconds: 30", "marginSeconds: 15"), "default", "terminationGracePeriodSeconds"),
    ("a hook by exec", "templates/deployment.yaml", ("sleep: {seconds: {{ .Values.shutdown.preStopSeconds }}}", "exec: {command: [sleep, \"5\"]}"), "default", "preStop hook by exec"),
    ("a field that no API has", "templates/deployment.yaml", ("minReadySeconds: 5", "minReadySecs: 5"), "default", "minReadySecs"),
    ("an API version that is gone", "templates/pdb.yaml", ("policy/v1\n", "policy/v1beta1\n"), "default", "not served"),
    ("a selector with the version", "templates/deployment.yaml", ("    matchLabels:\n      {{- include \"overdraft.selectorLabels\"", "    matchLabels:\n      app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}\n      {{- include \"overdraft.selectorLabels\""), "default", "which an upgrade changes"),
    ("a Service that selects nothing", "templates/service.yaml", ("\"component\" \"gateway\") | nindent 4 }}\n  ports", "\"component\" \"gatway\") | nindent 4 }}\n  ports"), "default", "selects no pods"),
    ("a writable root", "values.yaml", ("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"), "default", "may write to its root"),
    ("a user by name", "values.yaml", ("  runAsUser: 65532\n", ""), "default", "numbered user"),
    ("a file by subPath", "templates/deployment.yaml", ("mountPath: /etc/overdraft\n", "mountPath: /etc/overdraft/overdraft.yaml\n              subPath: overdraft.yaml\n"), "default", "subPath"),
    ("replicas beside an autoscaler", "templates/deployment.yaml", ("{{- if not .Values.autoscaling.enabled }}", "{{- if true }}"), "prometheus", "resets them"),
    ("an empty answer as zero", "templates/scaledobjects.yaml", ('ignoreNullValues: "false"', 'ignoreNullValues: "true"'), "prometheus", "an empty answer is zero"),
    ("a share divided by the replicas", "templates/scaledobjects.yaml", ("metricType: Value", "metricType: AverageValue"), "prometheus", "divided by the replicas"),
    ("metadata that is no text", "templates/scaledobjects.yaml", ("threshold: {{ $share | quote }}", "threshold: {{ $share }}"), "prometheus", "expected text"),
    ("a key that the scaler refuses", "templates/scaledobjects.yaml", ("kvTarget: {{ .kvTarget | quote }}", "kvThreshold: {{ .kvTarget | quote }}"), "pools", "refuses the key kvThreshold"),
    ("a scaler that KEDA finds too late", "templates/service.yaml", ("component\" \"scaler\") | nindent 4 }}\nspec:\n  type: ClusterIP\n  publishNotReadyAddresses: true\n", "component\" \"scaler\") | nindent 4 }}\nspec:\n  type: ClusterIP\n"), "pools", "publishNotReadyAddresses"),
    ("several GPUs without shared memory", "templates/pools.yaml", ("            {{- if gt $gpus 1 }}\n            - name: shared-memory\n              mountPath: /dev/shm\n            {{- end }}\n", ""), "pools", "/dev/shm"),
    ("an engine that is cut short", "templates/pools.yaml", ("add $pool.preStopSeconds $pool.drainSeconds 15", "add $pool.preStopSeconds 30"), "pools", "terminationGracePeriodSeconds"),
    ("names over UDP alone", "templates/networkpolicy.yaml", ("- {protocol: UDP, port: {{ . }}}\n        - {protocol: TCP, port: {{ . }}}\n", "- {protocol: UDP, port: {{ . }}}\n"), "locked", "UDP and TCP"),
    ("a model that is not passed on", "templates/pools.yaml", ("\"--model=%s\" . | quote }}\n            {{- end }}\n            {{- with $pool.servedModelName }}\n            - {{ printf \"--served-model-name=%s\" . | quote }}\n", "\"--model=%s\" . | quote }}\n            {{- end }}\n            {{- with $pool.servedModelName }}\n"), "simulated", "which it does not serve"),
    ("caches that nobody publishes", "templates/pools.yaml", ("            {{- if $pool.kvEvents }}\n            - '", "            {{- if not $pool.kvEvents }}\n            - '"), "pools", "expects KV events of it"),
    ("workers that any pod reaches", "templates/networkpolicy.yaml", ("{{- if and $policy.pools .Values.pools }}\n---", "{{- if false }}\n---"), "closed", "past the gateway's keys"),
    ("a test that the policy keeps out", "templates/networkpolicy.yaml", ("\"component\" \"test\"", "\"component\" \"tests\""), "locked", "from the clients' port"),
    ("a test without a key", "templates/tests/request.yaml", ("name: OPENAI_API_KEY", "name: API_KEY"), "fleet", "shows no key"),
    ("a flag that is none", "templates/deployment.yaml", ("- --log-format\n", "- --log-fmt\n"), "default", "--log-fmt is not a flag"),
    ("an image without a version", "values.yaml", ("    tag: v0.32.0", "    tag: latest"), "pools", "has no version"),
    ("metrics where clients are", "templates/_helpers.tpl", ("    \"listen\" (printf \"%s:%v\" .Values.listenAddress .Values.ports.admin)\n", ""), "default", "no admin.listen"),
)

# Values that the schema must refuse.
VALUE_PLANTS = (
    ("an unknown value", {"replicas": 3}, "replicas"),
    ("an unknown value inside", {"monitoring": {"serviceMonitor": {"enable": True}}}, "enable"),
    ("an unknown value of a pool", {"pools": {"target": {"model": "m", "gpu": 2}}}, "gpu"),
    ("a number as text", {"replicaCount": "two"}, "replicaCount"),
    ("a port that is none", {"ports": {"http": 70000}}, "http"),
    ("a share that is none", {"poolDefaults": {"autoscaling": {"kvTarget": "7"}}}, "kvTarget"),
    ("a share that the scaler refuses", {"poolDefaults": {"autoscaling": {"kvTarget": ".5"}}}, "kvTarget"),
    ("a share of nothing", {"poolDefaults": {"autoscaling": {"kvTarget": "0%"}}}, "kvTarget"),
    ("a count that the scaler refuses", {"poolDefaults": {"autoscaling": {"queueTarget": "99999999999"}}}, "queueTarget"),
    ("a token twice", {"admin": {"token": "a", "existingSecret": {"name": "b"}}}, "keep one"),
    ("a pool at zero that nothing wakes", {"keda": {"enabled": True}, "config": {"admission": {"hold": "0s"}}, "pools": {"one": {"model": "m", "autoscaling": {"enabled": True, "minReplicas": 0}}}}, "set config.admission.hold"),
    ("two pools by the load of one role", {"keda": {"enabled": True}, "pools": {"one": {"model": "m", "autoscaling": {"enabled": True, "mode": "prometheus"}}, "two": {"model": "n", "autoscaling": {"enabled": True, "mode": "prometheus"}}}}, "the load of the role target, "),
    ("two pools by the load of one model", {"keda": {"enabled": True}, "pools": {"one": {"model": "m", "autoscaling": {"enabled": True}}, "two": {"model": "n", "servedModelName": "m", "autoscaling": {"enabled": True}}}}, "the role target and the model m"),
    ("a pool by the load of another's role", {"keda": {"enabled": True}, "pools": {"one": {"model": "m", "autoscaling": {"enabled": True}}, "two": {"model": "n", "autoscaling": {"enabled": True, "mode": "prometheus"}}}}, "the load of the role target, "),
    ("a drain beside the grace period", {"config": {"shutdown": {"drain": "1200s"}}}, "set shutdown.drainSeconds"),
    ("a lame duck beside the grace period", {"config": {"shutdown": {"lame_duck": "1m"}}}, "set shutdown.lameDuckSeconds"),
    ("a listener beside its port", {"config": {"listen": "0.0.0.0:9000"}}, "set listenAddress and ports.http"),
    ("operators beside their port", {"config": {"admin": {"listen": "0.0.0.0:9999"}}}, "set listenAddress and ports.admin"),
    ("a scaler without a Service", {"config": {"scaling": {"listen": "0.0.0.0:9090"}}}, "set scaler.enabled"),
    ("operators without a port of their own", {"config": {"admin": {"listen": None}}}, "set listenAddress and ports.admin"),
    ("a token that is nothing", {"config": {"admin": {"token": None}}}, "admin.existingSecret"),
    ("a token in the ConfigMap", {"config": {"admin": {"token": "hush"}}}, "admin.existingSecret"),
    ("a password in the ConfigMap", {"redis": {"url": "redis://:hush@redis:6379/0"}}, "redis.existingSecret"),
    ("a key in the ConfigMap", {"config": {"keys": [{"tenant": "a", "key": "${KEY_A}"}, {"tenant": "b", "key": "hush"}]}}, "config.keys[1].key"),
    ("a worker's key in the ConfigMap", {"config": {"workers": [{"url": "http://w:8000", "api_key": "hush"}]}}, "config.workers[0].api_key"),
    ("a found worker's key in the ConfigMap", {"config": {"discovery": [{"dns": {"name": "w", "port": 1, "each": {"api_key": "hush"}}}]}}, "config.discovery[0].dns.each.api_key"),
    ("a salt in the ConfigMap", {"config": {"isolation": {"salt_secret": "hush"}}}, "config.isolation.salt_secret"),
    ("a pool's image without a version", {"pools": {"one": {"model": "m", "image": {"tag": ""}}}}, "neither tag nor digest"),
    ("labels by which pods are selected", {"podLabels": {"app.kubernetes.io/component": "web"}}, "select the pods"),
    ("the same beside the chart's value", {"config": {"store": {"url": "rediss://me:hush@redis:6379/0"}}}, "redis.existingSecret"),
    ("two listeners at one port", {"ports": {"admin": 8080}}, "are one port"),
    ("a worker where its events are", {"pools": {"one": {"model": "m", "port": 5557}}}, "where its KV events are published"),
    ("more replicas at least than at most", {"autoscaling": {"enabled": True, "minReplicas": 11}}, "more than maxReplicas"),
    ("more workers at least than at most", {"pools": {"one": {"model": "m", "autoscaling": {"enabled": True, "minReplicas": 9}}}}, "more than maxReplicas"),
    ("scrapes that outlast their interval", {"monitoring": {"serviceMonitor": {"enabled": True, "interval": "5s"}}}, "longer than interval"),
    ("the same of a PodMonitor", {"monitoring": {"podMonitor": {"enabled": True, "interval": "1m", "scrapeTimeout": "61s"}}}, "longer than interval"),
    ("a name that no Service may have", {"fullnameOverride": "Gateway_1"}, "set fullnameOverride"),
    ("a label that is none", {"nameOverride": "the gateway"}, "nameOverride"),
    ("a flag for what the chart sets", {"extraArgs": ["--shutdown-timeout=1200"]}, "sets by shutdown.drainSeconds"),
    ("a variable for what the chart sets", {"extraEnv": [{"name": "OVERDRAFT__ADMIN__LISTEN", "value": "0.0.0.0:1"}]}, "do not follow"),
    ("an address of kubelets without its length", {"networkPolicy": {"enabled": True, "kubelets": ["10.0.0.5"]}}, "kubelets"),
    ("a pool by the name of another Service", {"pools": {"scaler": {"model": "m"}}}, "scaler"),
    ("a pool without a model", {"pools": {"target": {}}}, "model is empty"),
)

RULE_PLANTS = (
    ("a metric that is none", ("overdraft_store_degraded)", "overdraft_store_degrade)"), "is not a metric"),
    ("a runbook that is nowhere", ("#overdraftdefect", "#overdraftdefects"), "no heading"),
    ("an alert without a severity", ("labels: {severity: critical}\n        annotations:\n          summary: No gateway", "labels: {}\n        annotations:\n          summary: No gateway"), "expected a severity"),
)

DASHBOARD_PLANTS = (
    ("workers counted by each gateway", ("count by (kind) ({gauge(\"overdraft_worker_prefix_knowledge\", WORKER, \"worker, kind\")})",
                                         "{gauge(\"overdraft_worker_prefix_knowledge\", WORKER, \"kind\", \"count\")}"), "in full"),
    ("hours summed over gateways", ("return f\"max by ({by})", "return f\"sum by ({by})"), "in full"),
)

UNIT_PLANTS = (
    ("a key that systemd does not know", "service", ("NoNewPrivileges=yes", "NoNewPrivilege=yes"), "NoNewPrivilege"),
    ("an audit log that cannot be written", "service", ("LogsDirectory=overdraft\n", ""), "audit log"),
    ("a type of a later systemd", "service", ("Type=notify", "Type=notify-reload"), "notify-reload"),
    ("all rights of root", "service", ("CapabilityBoundingSet=\nAmbientCapabilities=\n", "User=root\n"), "exposure"),
    ("a drain that is cut short", "service", ("TimeoutStopSec=660", "TimeoutStopSec=30"), "TimeoutStopSec"),
    ("a drain for which all new clients wait", "yaml", ("drain: 30s", "drain: 600s"), "wait at the socket"),
)


def replaced(path, pair):
    before, after = pair
    text = path.read_text()
    if before not in text:
        raise AssertionError(f"the plant does not fit: {before!r} is not in {path}")
    path.write_text(text.replace(before, after, 1))


def chart_findings(helm):
    """Plants in the chart that were not found."""
    for name, file, pair, values, word in CHART_PLANTS:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "overdraft"
            shutil.copytree(tools.CHART, copy)
            replaced(copy / file, pair)
            try:
                manifests = schemas.load(helm.template(copy, [copy / "ci" / f"{values}-values.yaml"]))
            except tools.HelmError as error:
                found = [str(error)]
            else:
                found = schemas.findings(manifests, schemas.VERSIONS[-1:]) + objects.findings(manifests)
            if not any(word in finding for finding in found):
                yield f"planted and not found: {name}; found instead: {found[:3]}"
    for name, inline, word in VALUE_PLANTS:
        try:
            helm.template(tools.CHART, [tools.CHART / "ci" / "default-values.yaml"] if "admin" not in inline else [], inline)
        except tools.HelmError as error:
            if word not in str(error):
                yield f"planted and refused for another reason: {name}: {str(error)[:200]}"
        else:
            yield f"planted and not found: {name}"


def rule_findings(known):
    """Plants in the rules that were not found."""
    for name, pair, word in RULE_PLANTS:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "rules"
            shutil.copytree(watching.RULES, copy)
            replaced(copy / "overdraft.yaml", pair)
            if not any(word in finding for finding in watching.rule_findings(known, copy)):
                yield f"planted and not found: {name}"


def dashboard_findings(known):
    """Plants in the dashboards that were not found."""
    for name, pair, word in DASHBOARD_PLANTS:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "grafana"
            shutil.copytree(watching.DASHBOARDS, copy)
            replaced(copy / "make.py", pair)
            subprocess.run([sys.executable, copy / "make.py"], check=True, capture_output=True, timeout=60)
            if not any(word in finding for finding in watching.dashboard_findings(known, copy)):
                yield f"planted and not found: {name}"


def unit_findings():
    """Plants in the systemd units that were not found."""
    for name, suffix, pair, word in UNIT_PLANTS:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "systemd"
            shutil.copytree(machine.UNITS, copy)
            replaced(copy / f"overdraft.{suffix}", pair)
            if not any(word in finding for finding in machine.unit_findings(copy)):
                yield f"planted and not found: {name}"


def count():
    return len(CHART_PLANTS) + len(VALUE_PLANTS) + len(RULE_PLANTS) + len(DASHBOARD_PLANTS) + len(UNIT_PLANTS)

{{/* Name of the chart, or what stands in for it. */}}
{{- define "overdraft.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of all objects: 40 characters leave room for the names of pools and of what stands behind. */}}
{{- define "overdraft.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "overdraft.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that select; they never change, so no version is among them. */}}
{{- define "overdraft.selectorLabels" -}}
app.kubernetes.io/name: {{ include "overdraft.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* All labels of an object. */}}
{{- define "overdraft.labels" -}}
{{ include "overdraft.selectorLabels" . }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: {{ include "overdraft.name" .root }}
{{- end -}}

{{- define "overdraft.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "overdraft.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* An image by digest, or by tag. Takes image and the tag to fall back on. */}}
{{- define "overdraft.imageOf" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .fallback .image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "overdraft.image" -}}
{{- include "overdraft.imageOf" (dict "image" .Values.image "fallback" .Chart.AppVersion) -}}
{{- end -}}

{{/* The Secret that holds the token for /admin. */}}
{{- define "overdraft.adminSecretName" -}}
{{- default (printf "%s-admin" (include "overdraft.fullname" .)) .Values.admin.existingSecret.name -}}
{{- end -}}

{{- define "overdraft.hasStore" -}}
{{- if or .Values.redis.url .Values.redis.existingSecret.name (dig "store" "url" "" .Values.config) -}}true{{- end -}}
{{- end -}}

{{/* The port at which the keys of who issues tokens are fetched; empty where none are. */}}
{{- define "overdraft.issuerPort" -}}
{{- with get (default (dict) .Values.config.jwt) "jwks_url" -}}
{{- $place := regexFind "^https?://[^/]*" (toString .) -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $place) | default (ternary "80" "443" (hasPrefix "http:" $place)) -}}
{{- end -}}
{{- end -}}

{{/* How clients speak to the gateway. */}}
{{- define "overdraft.scheme" -}}
{{- if .Values.config.tls -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{- define "overdraft.hasScaler" -}}
{{- if or .Values.scaler.enabled .Values.keda.enabled -}}true{{- end -}}
{{- end -}}

{{/* The clock of the grace period starts before the preStop hook. */}}
{{- define "overdraft.gracePeriod" -}}
{{- with .Values.shutdown -}}
{{- add .preStopSeconds .lameDuckSeconds .drainSeconds .marginSeconds -}}
{{- end -}}
{{- end -}}

{{/* The strategy of a roll-out. `Recreate` has no figures, and the API refuses those that the values have by default. */}}
{{- define "overdraft.strategy" -}}
{{- if eq .type "Recreate" -}}
type: Recreate
{{- else -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* A pool with its defaults filled in, as YAML. */}}
{{- define "overdraft.pool" -}}
{{- mergeOverwrite (deepCopy .root.Values.poolDefaults) (deepCopy .pool) | toYaml -}}
{{- end -}}

{{/* The name under which the workers of a pool serve their model, if it is known. */}}
{{- define "overdraft.servedModel" -}}
{{- $model := ternary .model (.model | base | trimSuffix ".gguf") (eq .engine "vllm") -}}
{{- default (ternary $model "" (ne .model "")) .servedModelName -}}
{{- end -}}

{{/* Ends where two pools would each be given the workers for the load of both. */}}
{{- define "overdraft.scaledApart" -}}
{{- $root := . -}}
{{- $seen := dict -}}
{{- range $name, $given := .Values.pools -}}
{{- $pool := include "overdraft.pool" (dict "root" $root "pool" $given) | fromYaml -}}
{{- $model := include "overdraft.servedModel" $pool -}}
{{- if $pool.autoscaling.enabled -}}
{{- range $before, $other := $seen -}}
{{- $whole := or (eq $other.mode "prometheus") (eq $pool.autoscaling.mode "prometheus") -}}
{{- $shared := or (eq $other.model $model) (not $other.model) (not $model) -}}
{{- if and (eq $other.role $pool.role) (or $whole $shared) -}}
{{- $what := ternary (printf "the role %s" $pool.role) (printf "the role %s and the model %s" $pool.role (default "of any name" $model)) $whole -}}
{{- fail (printf "pools.%s and pools.%s are both scaled by the load of %s, so each would get the workers for both; let one go without autoscaling, or tell them apart: mode external by model, mode prometheus by role" $before $name $what) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $seen $name (dict "role" $pool.role "model" $model "mode" $pool.autoscaling.mode) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Discovery of the chart's own pools, as a YAML list. */}}
{{- define "overdraft.poolDiscovery" -}}
{{- $root := . -}}
{{- range $name, $given := .Values.pools }}
{{- $pool := include "overdraft.pool" (dict "root" $root "pool" $given) | fromYaml }}
- kubernetes:
    namespace: {{ $root.Release.Namespace }}
    service: {{ include "overdraft.fullname" $root }}-{{ $name }}
    port: http
    pool: {{ $pool.role }}
    {{- with include "overdraft.servedModel" $pool }}
    model: {{ . | quote }}
    {{- end }}
    each:
      {{- if $pool.kvEvents }}
      kv_events:
        endpoint: "tcp://{host}:5557"
        replay_endpoint: "tcp://{host}:5558"
      {{- end }}
      {{- if $pool.priorityScheduling }}
      priority_scheduling: true
      {{- end }}
      warm_up: {{ $pool.warmUp }}
{{- end }}
{{- end -}}

{{/* Ends where `config` says otherwise what other objects go by: ports of containers and Services, the grace period. */}}
{{- define "overdraft.agreed" -}}
{{- $owners := dict
  "listen" "listenAddress and ports.http"
  "admin.listen" "listenAddress and ports.admin"
  "scaling.listen" "scaler.enabled, listenAddress and ports.scaler"
  "shutdown.lame_duck" "shutdown.lameDuckSeconds"
  "shutdown.drain" "shutdown.drainSeconds"
-}}
{{- range $key, $owner := $owners -}}
{{- $said := $.said -}}
{{- $derived := $.derived -}}
{{- $isSaid := true -}}
{{- range splitList "." $key -}}
{{- $isSaid = and $isSaid (hasKey (default (dict) $said) .) -}}
{{- $said = get (default (dict) $said) . -}}
{{- $derived = get (default (dict) $derived) . -}}
{{- end -}}
{{- /* What is said to be nothing counts: without `admin.listen`, clients would find /metrics and /admin. */ -}}
{{- if and $isSaid (ne (toString (default "" $said)) (toString (default "" $derived))) -}}
{{- fail (printf "config.%s is `%v`, by which the objects around the gateway do not go; leave it out and set %s" $key $said $owner) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The gateway's configuration: what the chart derives, and over it what the user says. */}}
{{- define "overdraft.config" -}}
{{- $full := include "overdraft.fullname" . -}}
{{- $admin := printf "%s-admin" $full -}}
{{- $derived := dict
  "listen" (printf "%s:%v" .Values.listenAddress .Values.ports.http)
  "admin" (dict
    "listen" (printf "%s:%v" .Values.listenAddress .Values.ports.admin)
    "token" "${OVERDRAFT_ADMIN_TOKEN}"
    "hosts" (list $admin (printf "%s.%s" $admin .Release.Namespace) (printf "%s.%s.svc" $admin .Release.Namespace) (printf "%s.%s.svc.cluster.local" $admin .Release.Namespace)))
  "shutdown" (dict
    "lame_duck" (printf "%vs" .Values.shutdown.lameDuckSeconds)
    "drain" (printf "%vs" .Values.shutdown.drainSeconds))
-}}
{{- if include "overdraft.hasScaler" . -}}
{{- $_ := set $derived "scaling" (dict "listen" (printf "%s:%v" .Values.listenAddress .Values.ports.scaler)) -}}
{{- end -}}
{{- if or .Values.redis.url .Values.redis.existingSecret.name -}}
{{- $url := ternary "${OVERDRAFT_STORE_URL}" .Values.redis.url (ne .Values.redis.existingSecret.name "") -}}
{{- $_ := set $derived "store" (dict "url" $url "namespace" .Values.redis.namespace) -}}
{{- end -}}
{{- if .Values.salt.existingSecret.name -}}
{{- $_ := set $derived "isolation" (dict "salt_secret" "${OVERDRAFT_SALT_SECRET}") -}}
{{- end -}}
{{- $own := include "overdraft.poolDiscovery" . | fromYamlArray -}}
{{- $discovery := concat $own (default (list) .Values.config.discovery) -}}
{{- if $discovery -}}
{{- $_ := set $derived "discovery" $discovery -}}
{{- end -}}
{{- include "overdraft.agreed" (dict "said" .Values.config "derived" $derived) -}}
{{- $own := $derived.admin.hosts -}}
{{- $config := mergeOverwrite $derived (omit .Values.config "discovery") -}}
{{- /* Names of a user's are added: the Service's own stay. */ -}}
{{- $_ := set $config.admin "hosts" (concat $own (default (list) $config.admin.hosts) | uniq) -}}
{{- $config | toYaml -}}
{{- end -}}

{{/* Namespaces in which services are discovered, as a YAML list. */}}
{{- define "overdraft.namespaces" -}}
{{- $names := list -}}
{{- range (include "overdraft.config" . | fromYaml).discovery -}}
{{- with .kubernetes -}}
{{- $names = append $names .namespace -}}
{{- end -}}
{{- end -}}
{{- $names | uniq | sortAlpha | toYaml -}}
{{- end -}}

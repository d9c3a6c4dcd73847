{{/* Values that are right by themselves and wrong together: each would be rendered, and refused or ignored later. */}}
{{- define "overdraft.refusals" -}}
{{- include "overdraft.refusals.names" . -}}
{{- include "overdraft.refusals.images" . -}}
{{- include "overdraft.refusals.ports" . -}}
{{- include "overdraft.refusals.replicas" . -}}
{{- include "overdraft.refusals.scrapes" . -}}
{{- include "overdraft.refusals.secrets" . -}}
{{- include "overdraft.refusals.overrides" . -}}
{{- end -}}

{{/* A Service is called by a DNS label that begins with a letter. */}}
{{- define "overdraft.refusals.names" -}}
{{- $full := include "overdraft.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $full) -}}
{{- fail (printf "objects would be called `%s`, and Services have names of small letters, digits and `-` that begin with a letter; set fullnameOverride" $full) -}}
{{- end -}}
{{- end -}}

{{/* An image without a version is no reference, and pods whose labels say otherwise are selected by nobody. */}}
{{- define "overdraft.refusals.images" -}}
{{- range $name, $given := .Values.pools -}}
{{- $image := (include "overdraft.pool" (dict "root" $ "pool" $given) | fromYaml).image -}}
{{- if not (or $image.tag $image.digest) -}}
{{- fail (printf "pools.%s.image has neither tag nor digest" $name) -}}
{{- end -}}
{{- end -}}
{{- $selected := include "overdraft.selectorLabels" (dict "root" . "component" "gateway") | fromYaml -}}
{{- range $label, $_ := .Values.podLabels -}}
{{- if hasKey $selected $label -}}
{{- fail (printf "podLabels has %s, by which the Deployment and its Services select the pods" $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Two listeners of one pod cannot have one port. */}}
{{- define "overdraft.refusals.ports" -}}
{{- $ports := list (int .Values.ports.http) (int .Values.ports.admin) -}}
{{- if include "overdraft.hasScaler" . -}}
{{- $ports = append $ports (int .Values.ports.scaler) -}}
{{- end -}}
{{- if lt (len (uniq $ports)) (len $ports) -}}
{{- fail (printf "two of ports.http, ports.admin and ports.scaler are one port: %v" $ports) -}}
{{- end -}}
{{- range $name, $given := .Values.pools -}}
{{- $pool := include "overdraft.pool" (dict "root" $ "pool" $given) | fromYaml -}}
{{- if and $pool.kvEvents (has (int $pool.port) (list 5557 5558)) -}}
{{- fail (printf "pools.%s.port is %d, where its KV events are published; take another, or set kvEvents: false" $name (int $pool.port)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The API refuses an autoscaler whose fewest replicas are more than its most. */}}
{{- define "overdraft.refusals.replicas" -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas is %d, more than maxReplicas: %d" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $given := .Values.pools -}}
{{- $pool := include "overdraft.pool" (dict "root" $ "pool" $given) | fromYaml -}}
{{- with $pool.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "pools.%s.autoscaling.minReplicas is %d, more than maxReplicas: %d" $name (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* prometheus-operator passes over a monitor whose scrapes take longer than their interval, and nothing is scraped. */}}
{{- define "overdraft.refusals.scrapes" -}}
{{- range $name := list "serviceMonitor" "podMonitor" -}}
{{- with get $.Values.monitoring $name -}}
{{- if and .enabled (gt (include "overdraft.millis" .scrapeTimeout | int64) (include "overdraft.millis" .interval | int64)) -}}
{{- fail (printf "monitoring.%s.scrapeTimeout is %s, longer than interval: %s" $name .scrapeTimeout .interval) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A span of Prometheus in milliseconds. */}}
{{- define "overdraft.millis" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- mul (regexFind "^[0-9]+" . | int64) (get $units (regexFind "[a-z]+$" .)) -}}
{{- end -}}

{{/* The configuration is in a ConfigMap, which more people may read than Secrets. */}}
{{- define "overdraft.refusals.secrets" -}}
{{- $config := include "overdraft.config" . | fromYaml -}}
{{- $token := toString (default "" $config.admin.token) -}}
{{- if not (contains "${" $token) -}}
{{- fail "config.admin.token is empty or stands in the ConfigMap; leave it out, and name a Secret in admin.existingSecret" -}}
{{- end -}}
{{- $url := toString (default "" (get (default (dict) $config.store) "url")) -}}
{{- if and (regexMatch "://[^@]*:[^@]*@" $url) (not (contains "${" $url)) -}}
{{- fail "the password in the address of the store would stand in the ConfigMap; put the address into a Secret, and name it in redis.existingSecret" -}}
{{- end -}}
{{- $secrets := dict
  "cache.encryption_key" (get (default (dict) $config.cache) "encryption_key")
  "isolation.salt_secret" (get (default (dict) $config.isolation) "salt_secret")
-}}
{{- range $index, $key := $config.keys -}}
{{- $_ := set $secrets (printf "keys[%d].key" $index) (get $key "key") -}}
{{- end -}}
{{- range $index, $worker := $config.workers -}}
{{- $_ := set $secrets (printf "workers[%d].api_key" $index) (get $worker "api_key") -}}
{{- end -}}
{{- range $index, $source := $config.discovery -}}
{{- range $kind, $found := $source -}}
{{- $_ := set $secrets (printf "discovery[%d].%s.each.api_key" $index $kind) (get (default (dict) (get $found "each")) "api_key") -}}
{{- end -}}
{{- end -}}
{{- range $path, $value := $secrets -}}
{{- if and $value (not (contains "${" (toString $value))) -}}
{{- fail (printf "config.%s would stand in the ConfigMap; have extraEnv bring it from a Secret, and name it as `${NAME}`" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Flags and variables count more than the file, and nothing around the gateway follows them. */}}
{{- define "overdraft.refusals.overrides" -}}
{{- $flags := dict
  "--config" "config"
  "-c" "config"
  "--listen" "listenAddress and ports.http"
  "--admin-listen" "listenAddress and ports.admin"
  "--scaler-listen" "scaler.enabled, listenAddress and ports.scaler"
  "--shutdown-timeout" "shutdown.drainSeconds"
  "--ssl-certfile" "config.tls"
  "--ssl-keyfile" "config.tls"
  "--ssl-ca-certs" "config.tls"
  "--log-level" "logLevel"
  "--log-format" "itself"
-}}
{{- range .Values.extraArgs -}}
{{- $flag := regexReplaceAll "=.*" . "" -}}
{{- with get $flags $flag -}}
{{- fail (printf "extraArgs has %s, which the chart sets by %s; leave it out" $flag .) -}}
{{- end -}}
{{- end -}}
{{- $sections := list "LISTEN" "ADMIN" "ADMIN__LISTEN" "SCALING__LISTEN" "SHUTDOWN" "SHUTDOWN__DRAIN" "SHUTDOWN__LAME_DUCK" -}}
{{- range .Values.extraEnv -}}
{{- $name := upper (toString .name) -}}
{{- $key := trimPrefix "OVERDRAFT__" $name -}}
{{- if and (ne $key $name) (or (has $key $sections) (eq $key "TLS") (hasPrefix "TLS__" $key)) -}}
{{- fail (printf "extraEnv has %s, which the objects around the gateway do not follow; set ports, shutdown, admin or config.tls" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The configuration: its text, and what the chart needs to know of it. */}}

{{- define "skybridge.configText" -}}
{{- if .Values.configFile -}}
{{ .Values.configFile }}
{{- else if .Values.config -}}
{{ toYaml .Values.config }}
{{- else -}}
{{ .Files.Get "files/skybridge.yaml" }}
{{- end -}}
{{- end -}}

{{/* "5s", "1m30s", 5 or 0.5 to seconds, rounded up. */}}
{{- define "skybridge.seconds" -}}
{{- $total := 0.0 -}}
{{- if kindIs "string" . -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 -}}
{{- $text := replace " " "" . -}}
{{- if not (regexMatch "^([0-9]+([.][0-9]+)?(ms|s|m|h|d))+$" $text) -}}
{{- fail (printf "\n\nSkybridge's chart computes the grace time of the pods from timeouts.not_ready and timeouts.drain, and cannot read %q.\nCure: write a duration, for example 25s." .) -}}
{{- end -}}
{{- range regexFindAll "[0-9]+([.][0-9]+)?(ms|s|m|h|d)" $text -1 -}}
{{- $total = addf $total (mulf (regexFind "^[0-9.]+" . | float64) (get $units (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- else -}}
{{- $total = float64 . -}}
{{- end -}}
{{- ceil $total | int -}}
{{- end -}}

{{/* "20GiB" of the configuration, "10Gi" of Kubernetes, or a number, to bytes. dict "setting" name "size" size */}}
{{- define "skybridge.bytes" -}}
{{- $text := kindIs "string" .size | ternary (toString .size) (printf "%.0f" (float64 (kindIs "string" .size | ternary 0 .size))) -}}
{{- $units := dict "" 1.0 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "KI" 1024.0 "MI" 1048576.0 "GI" 1073741824.0 "TI" 1099511627776.0 -}}
{{- $unit := regexFind "[A-Za-z]*$" $text | upper | trimSuffix "B" -}}
{{- if or (not (regexMatch "^[0-9]+([.][0-9]+)? *[A-Za-z]*$" $text)) (not (hasKey $units $unit)) -}}
{{- fail (printf "\n\nSkybridge's chart compares %s with the volume, and cannot read %q.\nCure: write a size, for example 5GiB." .setting $text) -}}
{{- end -}}
{{- mulf (regexFind "^[0-9.]+" $text | float64) (get $units $unit) | ceil | int64 -}}
{{- end -}}

{{/* Names of the brokers that serve for more than spools, as a JSON list. The argument: the configuration. */}}
{{- define "skybridge.shared" -}}
{{- $used := list -}}
{{- range .routes -}}
{{- range (kindIs "slice" .to | ternary .to (list .to)) -}}{{- $used = append $used .broker -}}{{- end -}}
{{- end -}}
{{- range .subscriptions -}}
{{- range list .source .sink .dead_letter -}}{{- if kindIs "map" . -}}{{- $used = append $used .broker -}}{{- end -}}{{- end -}}
{{- end -}}
{{- range list .operator_events .pipeline -}}{{- if kindIs "map" . -}}{{- $used = append $used .broker -}}{{- end -}}{{- end -}}
{{- range $name, $broker := .brokers -}}{{- if $broker.kafka_listener -}}{{- $used = append $used $name -}}{{- end -}}{{- end -}}
{{- compact $used | uniq | toJson -}}
{{- end -}}

{{/*
What the chart needs to know, as YAML:
  store        sqlite | postgresql
  embedded     names of embedded logs; kafka: names of Kafka brokers without an instance_id
  spools       bytes that may wait, by the name of the embedded log that keeps the spools
  shared       names of brokers that serve for more than spools
  partitions   most of one topic, as the configuration has it
  access       who may send events, as the configuration says it
  eventsPort, adminPort, adminScheme, eventsScheme
  kafkaPorts   of the listeners that others can reach; kafkaPort: the first, 0 for none
  adminTokens  how many server.admin.tokens it has
  metricsSecret  name of the Secret with the token for Prometheus
  grace        seconds a pod needs to leave, at most
*/}}
{{- define "skybridge.facts" -}}
{{- $config := include "skybridge.configText" . | fromYaml -}}
{{- if or (hasKey $config "Error") (not $config) -}}
{{- fail (printf "\n\nconfigFile is no YAML mapping: %v\nCure: skybridge check FILE says more." (get $config "Error")) -}}
{{- end -}}
{{- $server := $config.server | default dict -}}
{{- $events := $server.events | default dict -}}
{{- $admin := $server.admin | default dict -}}
{{- $timeouts := $config.timeouts | default dict -}}
{{- $notReady := "5s" -}}{{- if hasKey $timeouts "not_ready" -}}{{- $notReady = $timeouts.not_ready -}}{{- end -}}
{{- $drain := include "skybridge.seconds" ($timeouts.drain | default "25s") | int -}}
{{- $spools := dict -}}
{{- range ($config.routes | default list) -}}
{{- $route := . -}}
{{- with .spool -}}
{{- $size := include "skybridge.bytes" (dict "setting" (printf "spool.max of route %s" $route.name) "size" .max) | int64 -}}
{{- $_ := set $spools (toString .broker) (add $size (get $spools (toString .broker) | default 0)) -}}
{{- end -}}
{{- end -}}
{{- $embedded := list -}}{{- $kafka := list -}}{{- $partitions := 0 -}}{{- $kafkaPorts := list -}}
{{- range $name, $broker := ($config.brokers | default dict) -}}
{{- if eq (toString $broker.kind) "embedded" -}}
{{- $embedded = append $embedded $name -}}
{{- $listener := $broker.kafka_listener | default "" -}}
{{- if kindIs "map" $listener -}}{{- $listener = $listener.listen | default "" -}}{{- end -}}
{{- if and $listener (not (regexMatch "^(127[.]|localhost:|\\[::1\\])" $listener)) -}}
{{- $port := regexFind "[0-9]+$" $listener | int -}}
{{- if $port -}}{{- $kafkaPorts = append $kafkaPorts $port -}}{{- end -}}
{{- end -}}
{{- else -}}
{{- $partitions = max $partitions (($broker.topics | default dict).partitions | default 8 | int) -}}
{{- end -}}
{{- if and (eq (toString $broker.kind) "kafka") (not $broker.instance_id) -}}
{{- $kafka = append $kafka $name -}}
{{- end -}}
{{- end -}}
store: {{ ($config.store | default dict).kind | default "sqlite" }}
embedded: {{ toJson $embedded }}
spools: {{ toJson $spools }}
shared: {{ include "skybridge.shared" $config }}
kafka: {{ toJson $kafka }}
partitions: {{ .Values.worker.partitions | int | default $partitions }}
access: {{ $events.access | default "" | quote }}
eventsPort: {{ $events.port | default 8080 | int }}
adminPort: {{ $admin.port | default 8081 | int }}
eventsScheme: {{ ternary "https" "http" (or (not (empty $events.tls)) (not (empty .Values.tls.events.existingSecret))) }}
adminScheme: {{ ternary "https" "http" (or (not (empty $admin.tls)) (not (empty .Values.tls.admin.existingSecret))) }}
kafkaPort: {{ first $kafkaPorts | default 0 }}
kafkaPorts: {{ toJson $kafkaPorts }}
adminTokens: {{ len ($admin.tokens | default list) }}
metricsSecret: {{ .Values.metricsToken.existingSecret | default .Values.adminToken.existingSecret | quote }}
{{/* As the service bounds itself: not ready, then three steps of drain and 5 s of release each; and 5 s for the node. */ -}}
grace: {{ add (.Values.preStopSeconds | int) (include "skybridge.seconds" $notReady | int) (mul 3 (add $drain 5)) 5 }}
{{- end -}}

{{/*
Faults of the values, one a line, each with its cure. values.schema.json refuses unknown names, wrong types and bounds;
here stands what takes two values, or the configuration, to see.
*/}}

{{- define "skybridge.faults" -}}
{{- $facts := include "skybridge.facts" . | fromYaml -}}
{{- $faults := list -}}
{{- if and .Values.configFile .Values.config -}}
{{- $faults = append $faults "configFile and config are both given. Cure: keep one." -}}
{{- end -}}
{{- if eq $facts.eventsPort $facts.adminPort -}}
{{- $faults = append $faults (printf "server.events.port and server.admin.port are both %v. Cure: choose another for one of them." $facts.adminPort) -}}
{{- end -}}
{{- if eq .Values.topology "single" -}}
{{- $faults = concat $faults (include "skybridge.faultsOfSingle" . | fromJsonArray) -}}
{{- else -}}
{{- $faults = concat $faults (include "skybridge.faultsOfSplit" (dict "root" . "facts" $facts) | fromJsonArray) -}}
{{- end -}}
{{- $faults = concat $faults (include "skybridge.faultsOfDoors" (dict "root" . "facts" $facts) | fromJsonArray) -}}
{{- $faults = concat $faults (include "skybridge.faultsOfNames" . | fromJsonArray) -}}
{{- $faults = concat $faults (include "skybridge.faultsOfOperator" (dict "root" . "facts" $facts) | fromJsonArray) -}}
{{- range $name := .Values.prometheusRule.without -}}
{{- if not (regexMatch (printf "(?m)^- alert: %s$" $name) ($.Files.Get "files/alerts.yaml")) -}}
{{- $faults = append $faults (printf "prometheusRule.without names %s, which is not an alert. Cure: take a name from files/alerts.yaml." $name) -}}
{{- end -}}
{{- end -}}
{{- toJson $faults -}}
{{- end -}}

{{- define "skybridge.faultsOfNames" -}}
{{- $faults := list -}}
{{- $name := include "skybridge.fullname" . -}}
{{- if not (regexMatch "^[a-z]" $name) -}}
{{- $faults = append $faults (printf "the release is called %s, and the name of a Service begins with a letter. Cure: fullnameOverride, for example bridge-%s." .Release.Name $name) -}}
{{- end -}}
{{- range .Values.extraVolumes -}}
{{- if or (has .name (list "config" "tmp" "data" "asks" "running" "backups")) (regexMatch "^(secret|tls)-" .name) -}}
{{- $faults = append $faults (printf "extraVolumes: %s is a name that the chart uses itself. Cure: choose another name." .name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{- $path := clean .mountPath -}}
{{- if has $path (list "/" "/etc" "/etc/skybridge" "/etc/skybridge-secrets" "/etc/skybridge-tls" "/tmp" "/var/lib/skybridge" "/opt/skybridge") -}}
{{- $faults = append $faults (printf "extraVolumeMounts: %s would hide files of the pod. Cure: choose another path, for example /etc/%s." .mountPath .name) -}}
{{- end -}}
{{- end -}}
{{- toJson $faults -}}
{{- end -}}

{{- define "skybridge.faultsOfSingle" -}}
{{- $faults := list -}}
{{- $config := include "skybridge.configText" . | fromYaml -}}
{{- if .Values.gateway.autoscaling.enabled -}}
{{- $faults = append $faults "gateway.autoscaling.enabled: an embedded log and a SQLite store have one owner, and topology single is one pod. Cure: leave autoscaling off, or topology=split on a broker and PostgreSQL." -}}
{{- end -}}
{{- if .Values.worker.keda.enabled -}}
{{- $faults = append $faults "worker.keda.enabled: an embedded log and a SQLite store have one owner, and topology single is one pod. Cure: leave KEDA off, or topology=split on a broker and PostgreSQL." -}}
{{- end -}}
{{- $claim := .Values.persistence.existingClaim -}}
{{- if and .Release.IsUpgrade (or .Values.nameOverride .Values.fullnameOverride) (not $claim) -}}
{{- $faults = append $faults (printf "persistence.existingClaim is not set, and nameOverride or fullnameOverride gives the pod the volume %s: under another name than before it would be empty. Cure: the claim that has the data of this release; %s, if it has had this name from the start." (include "skybridge.ownClaim" .) (include "skybridge.ownClaim" .)) -}}
{{- end -}}
{{- if and (include "skybridge.foreignClaim" .) (eq .Values.persistence.whenDeleted "Delete") -}}
{{- $faults = append $faults "persistence.whenDeleted is Delete, and persistence.existingClaim names a claim: Kubernetes would delete it with the StatefulSet that made it. Cure: Retain, in an upgrade of its own before existingClaim." -}}
{{- end -}}
{{- if and .Values.backup.enabled (eq .Values.persistence.accessMode "ReadWriteOncePod") -}}
{{- $faults = append $faults "backup.enabled: with persistence.accessMode ReadWriteOncePod no second pod can mount the volume. Cure: ReadWriteOnce for a new release; or snapshots of the volume." -}}
{{- end -}}
{{- $paths := dict -}}
{{- $store := $config.store | default dict -}}
{{- if eq ($store.kind | default "sqlite") "sqlite" -}}
{{- $_ := set $paths "store.path" ($store.path | default "./skybridge-data/store.db") -}}
{{- end -}}
{{- $faults = concat $faults (include "skybridge.faultsOfVolume" (dict "root" . "paths" $paths) | fromJsonArray) -}}
{{- toJson $faults -}}
{{- end -}}

{{/* Embedded logs, and what else has a path, are on the volume, and spools fit on it. dict "root" $ "paths" paths by setting */}}
{{- define "skybridge.faultsOfVolume" -}}
{{- $faults := list -}}
{{- $values := .root.Values -}}{{- $paths := .paths -}}
{{- $config := include "skybridge.configText" .root | fromYaml -}}
{{- range $name, $broker := ($config.brokers | default dict) -}}
{{- if eq (toString $broker.kind) "embedded" -}}{{- $_ := set $paths (printf "brokers.%s.path" $name) (toString $broker.path) -}}{{- end -}}
{{- end -}}
{{- range $setting, $path := $paths -}}
{{- $clean := clean (ternary $path (printf "/var/lib/skybridge/%s" $path) (isAbs $path)) -}}
{{- if not (hasPrefix "/var/lib/skybridge/" $clean) -}}
{{- $faults = append $faults (printf "%s: %s is not on the volume, so its data would be lost with the pod. Cure: a path below /var/lib/skybridge." $setting $path) -}}
{{- end -}}
{{- end -}}
{{- $most := 0 -}}
{{- range (include "skybridge.facts" .root | fromYaml).spools -}}{{- $most = add $most (int64 .) -}}{{- end -}}
{{- $volume := include "skybridge.bytes" (dict "setting" "persistence.size" "size" $values.persistence.size) | int64 -}}
{{- if gt $most $volume -}}
{{- $faults = append $faults (printf "the spools of all routes may take %d bytes, and persistence.size is %s. Cure: raise persistence.size, or lower spool.max." $most $values.persistence.size) -}}
{{- end -}}
{{- toJson $faults -}}
{{- end -}}

{{- define "skybridge.faultsOfSplit" -}}
{{- $faults := list -}}
{{- $values := .root.Values -}}{{- $worker := $values.worker -}}
{{- $facts := .facts -}}
{{- range $facts.embedded -}}
{{- if not (hasKey $facts.spools .) -}}
{{- $faults = append $faults (printf "brokers.%s is an embedded log, which has one owner, and topology split is many pods. Cure: topology=single, or a Kafka, RabbitMQ or Pulsar." .) -}}
{{- else if has . $facts.shared -}}
{{- $faults = append $faults (printf "brokers.%s keeps spools, and routes, subscriptions, operator_events, pipeline or a kafka_listener use it too: each gateway has a log of its own, and nobody would see all of them. Cure: an embedded log for spools alone." .) -}}
{{- end -}}
{{- end -}}
{{- if $facts.spools -}}
{{- $faults = concat $faults (include "skybridge.faultsOfVolume" (dict "root" .root "paths" dict) | fromJsonArray) -}}
{{- if eq $facts.adminScheme "https" -}}
{{- $faults = append $faults "tls.admin: a gateway with spools asks its own admin listener, before it ends, whether they are empty, and no certificate is for 127.0.0.1. Cure: no TLS for the admin listener, which networkPolicy guards; or topology=single." -}}
{{- end -}}
{{- end -}}
{{- if eq .facts.store "sqlite" -}}
{{- $faults = append $faults "store.kind: SQLite is for one process, and topology split is many pods. Cure: store: {kind: postgresql, dsn: ...}, or topology=single." -}}
{{- end -}}
{{- if $values.persistence.existingClaim -}}
{{- $faults = append $faults "persistence.existingClaim: it is for the one pod of topology single; gateways with spools have a volume each. Cure: leave it out." -}}
{{- end -}}
{{- if $values.backup.enabled -}}
{{- $faults = append $faults "backup.enabled: the store of topology split is PostgreSQL, and its events are in the broker. Cure: leave it out, and back them up with pg_dump and the tools of the broker." -}}
{{- end -}}
{{- $faults = concat $faults (include "skybridge.faultsOfInitial" (dict "setting" "gateway.autoscaling" "scaler" $values.gateway.autoscaling) | fromJsonArray) -}}
{{- $faults = concat $faults (include "skybridge.faultsOfInitial" (dict "setting" "worker.keda" "scaler" $worker.keda) | fromJsonArray) -}}
{{- $most := $worker.replicas -}}{{- $setting := "worker.replicas" -}}
{{- if $worker.keda.enabled -}}
{{- $most = $worker.keda.maxReplicas -}}{{- $setting = "worker.keda.maxReplicas" -}}
{{- if not $worker.keda.prometheus -}}
{{- $faults = append $faults "worker.keda.prometheus is empty: the lag comes from Prometheus. Cure: its address, http://prometheus.monitoring:9090." -}}
{{- end -}}
{{- if gt (int $worker.keda.minReplicas) (int $worker.keda.maxReplicas) -}}
{{- $faults = append $faults "worker.keda.minReplicas is above maxReplicas. Cure: lower it." -}}
{{- end -}}
{{- end -}}
{{- if and .facts.partitions (gt (int $most) (int .facts.partitions)) -}}
{{- $faults = append $faults (printf "%s is %v, and the configuration has topics of at most %v partitions: each has one owner, so the other workers would be idle. Cure: fewer workers; or worker.partitions, if your topics have more." $setting $most .facts.partitions) -}}
{{- end -}}
{{- if $values.gateway.autoscaling.enabled -}}
{{- if gt (int $values.gateway.autoscaling.minReplicas) (int $values.gateway.autoscaling.maxReplicas) -}}
{{- $faults = append $faults "gateway.autoscaling.minReplicas is above maxReplicas. Cure: lower it." -}}
{{- end -}}
{{- if not ($values.gateway.resources.requests | default dict).cpu -}}
{{- $faults = append $faults "gateway.autoscaling.enabled: its target is a percentage of gateway.resources.requests.cpu, which is not set. Cure: set it." -}}
{{- end -}}
{{- end -}}
{{- toJson $faults -}}
{{- end -}}

{{/* dict "setting" name "scaler" values */}}
{{- define "skybridge.faultsOfInitial" -}}
{{- $faults := list -}}
{{- $initial := .scaler.initialReplicas -}}
{{- if .scaler.enabled -}}
{{- if kindIs "string" $initial -}}
{{- $faults = append $faults (printf "%s.initialReplicas is not set, and an upgrade that turns scaling on would go back to one pod. Cure: the number of pods that run now, with which each upgrade then begins; or 0 for a new release, where the scaler alone decides." .setting) -}}
{{- else if and $initial (or (lt (int $initial) (int .scaler.minReplicas)) (gt (int $initial) (int .scaler.maxReplicas))) -}}
{{- $faults = append $faults (printf "%s.initialReplicas is %v, and not between minReplicas and maxReplicas. Cure: choose a number between them." .setting $initial) -}}
{{- end -}}
{{- end -}}
{{- toJson $faults -}}
{{- end -}}

{{- define "skybridge.faultsOfDoors" -}}
{{- $faults := list -}}
{{- $values := .root.Values -}}
{{- $server := (include "skybridge.configText" .root | fromYaml).server | default dict -}}
{{- range $listener := list "events" "admin" -}}
{{- $settings := get $server $listener | default dict -}}
{{- if and (hasKey $settings "port") (not (regexMatch "^[1-9][0-9]{0,4}$" (toString $settings.port))) -}}
{{- $faults = append $faults (printf "server.%s.port is %v, and Services and probes need a number. Cure: write one from 1 to 65535, or leave it out." $listener $settings.port) -}}
{{- end -}}
{{- end -}}
{{- if (($server.admin | default dict).tls | default dict).client_ca -}}
{{- $faults = append $faults "server.admin.tls.client_ca: the probes of Kubernetes bring no client certificate, so no pod would become ready. Cure: leave it out; networkPolicy and the tokens guard the admin listener." -}}
{{- end -}}
{{- if not .facts.access -}}
{{- $faults = append $faults "server.events.access of the configuration is not set, and other pods reach the listener. Cure: producers, and list them under producers; or open, which lets every client send." -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.ingress.hosts) -}}
{{- $faults = append $faults "ingress.hosts is empty. Cure: name the host that senders post to." -}}
{{- end -}}
{{- if and $values.httpRoute.enabled (not $values.httpRoute.parentRefs) -}}
{{- $faults = append $faults "httpRoute.parentRefs is empty: no gateway would carry the route. Cure: name one, {name: public, namespace: gateways}." -}}
{{- end -}}
{{- if and $values.service.kafkaListener.enabled (not .facts.kafkaPort) -}}
{{- $faults = append $faults "service.kafkaListener.enabled: no broker has a kafka_listener that other pods can reach. Cure: brokers.NAME.kafka_listener: {listen: \"0.0.0.0:9092\", advertised: ...}." -}}
{{- end -}}
{{- if and $values.service.kafkaListener.enabled (gt (len .facts.kafkaPorts) 1) -}}
{{- $faults = append $faults (printf "service.kafkaListener.enabled: several brokers have a kafka_listener that other pods can reach, at the ports %s, and the Service is for one. Cure: let the others listen on 127.0.0.1, or make Services of your own." (join ", " .facts.kafkaPorts)) -}}
{{- end -}}
{{- range $label, $_ := $values.pods.labels -}}
{{- if has $label (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component") -}}
{{- $faults = append $faults (printf "pods.labels: %s is the chart's own, by which it finds its pods. Cure: choose another label." $label) -}}
{{- end -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled $values.networkPolicy.enabled (not $values.networkPolicy.adminFrom) -}}
{{- $faults = append $faults "networkPolicy.adminFrom is empty: Prometheus could not reach the admin listener. Cure: name its namespace, {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}." -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled (eq .facts.adminScheme "https") (not $values.serviceMonitor.tlsConfig) -}}
{{- $faults = append $faults "serviceMonitor.tlsConfig is empty, and the admin listener serves https. Cure: name its authority and serverName." -}}
{{- end -}}
{{- toJson $faults -}}
{{- end -}}

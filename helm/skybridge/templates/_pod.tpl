{{/* The pod of a role. dict "root" $ "role" "single" | "gateway" | "worker" | "operator" "facts" facts "resources" resources */}}

{{- define "skybridge.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "skybridge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What `kubectl run try` needs where pods must be restricted, and where a quota counts. */}}
{{- define "skybridge.try" -}}
{{- $container := dict "name" "try" "securityContext" (include "skybridge.containerSecurity" . | fromYaml) "resources" .Values.tests.resources -}}
{{- $spec := dict "automountServiceAccountToken" false "securityContext" (include "skybridge.podSecurity" . | fromYaml) "containers" (list $container) -}}
{{- with .Values.imagePullSecrets -}}{{- $_ := set $spec "imagePullSecrets" . -}}{{- end -}}
{{- toJson (dict "spec" $spec) -}}
{{- end -}}

{{/* What the pods of all jobs share. The argument: $, or dict "Values" values "token" whether it speaks to the API server */}}
{{- define "skybridge.jobPod" -}}
automountServiceAccountToken: {{ default false .token }}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "skybridge.podSecurity" . | nindent 2 }}
{{- end -}}

{{/* What every process with the configuration needs: references are resolved from it. */}}
{{- define "skybridge.environment" -}}
{{- include "skybridge.environmentOf" (dict "root" . "optional" false) -}}
{{- end -}}

{{/* dict "root" $ "optional" whether a Secret may be missing */}}
{{- define "skybridge.environmentOf" -}}
{{- $optional := ternary ", optional: true" "" .optional }}
{{- range .root.Values.secretEnv }}
- name: {{ .name | quote }}
  valueFrom: {secretKeyRef: {name: {{ .existingSecret | quote }}, key: {{ .key | quote }}{{ $optional }}}}
{{- end }}
{{- with .root.Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "skybridge.mounts" -}}
- {name: config, mountPath: /etc/skybridge, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- range .Values.secretFiles }}
- {name: secret-{{ .name }}, mountPath: /etc/skybridge-secrets/{{ .name }}, readOnly: true}
{{- end }}
{{- range $listener, $tls := .Values.tls }}
{{- if $tls.existingSecret }}
- {name: tls-{{ $listener }}, mountPath: /etc/skybridge-tls/{{ $listener }}, readOnly: true}
{{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* dict "root" $ "configMap" name "optional" whether a Secret may be missing */}}
{{- define "skybridge.volumes" -}}
{{- $optional := ternary ", optional: true" "" (default false .optional) }}
- name: config
  configMap: {name: {{ .configMap }}}
- name: tmp
  emptyDir: {}
{{- range .root.Values.secretFiles }}
- name: secret-{{ .name }}
  secret: {secretName: {{ .existingSecret | quote }}, defaultMode: 0440{{ $optional }}}
{{- end }}
{{- range $listener, $tls := .root.Values.tls }}
{{- if $tls.existingSecret }}
- name: tls-{{ $listener }}
  secret: {secretName: {{ $tls.existingSecret | quote }}, defaultMode: 0440{{ $optional }}}
{{- end }}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "skybridge.podMetadata" -}}
labels:
  {{- include "skybridge.roleSelector" . | nindent 2 }}
  {{- with .root.Values.pods.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := .root.Values.pods.annotations | default dict }}
{{- if .root.Values.restartOnConfigChange }}
{{- $annotations = merge (dict "checksum/config" (include "skybridge.configText" .root | sha256sum)) $annotations }}
{{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "skybridge.placement" -}}
{{- with .root.Values.pods.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pods.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pods.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pods.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if ne .role "single" }}
{{- with .root.Values.pods.topologySpread }}
topologySpreadConstraints:
  {{- range . }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "skybridge.roleSelector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "skybridge.podSpec" -}}
{{- $values := .root.Values -}}
{{- $operator := eq .role "operator" -}}
{{- $takes := has .role (list "single" "gateway") -}}
serviceAccountName: {{ ternary (include "skybridge.operatorName" .root) (include "skybridge.serviceAccount" .root) $operator }}
automountServiceAccountToken: {{ $operator }}
enableServiceLinks: false
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "skybridge.podSecurity" .root | nindent 2 }}
{{- $spools := and (eq .role "gateway") (not (empty .facts.spools)) }}
{{- if $operator }}
terminationGracePeriodSeconds: 30
{{- else }}
# preStopSeconds, {{ if $spools }}gateway.drainSeconds, {{ end }}timeouts.not_ready, three steps of timeouts.drain and 5 s each, 5 s for the node
terminationGracePeriodSeconds: {{ add .facts.grace (ternary $values.gateway.drainSeconds 0 $spools | int) }}
{{- end }}
{{- with include "skybridge.placement" . | trim }}
{{ . }}
{{- end }}
containers:
  - name: skybridge
    image: {{ include "skybridge.image" .root | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args:
      {{- $args := list (ternary "operator" "serve" $operator) "--config" "/etc/skybridge/skybridge.yaml" }}
      {{- if has .role (list "gateway" "worker") }}{{ $args = concat $args (list "--role" .role) }}{{ end }}
      {{- toYaml $args | nindent 6 }}
    env:
      {{- include "skybridge.podEnvironment" . | trim | nindent 6 }}
      # A pod whose configuration is refused waits for a corrected file, and is not ready meanwhile.
      - {name: SKYBRIDGE_WAIT_FOR_CONFIG, value: "true"}
    ports:
      {{- if $takes }}
      - {name: events, containerPort: {{ .facts.eventsPort }}}
      {{- end }}
      - {name: admin, containerPort: {{ .facts.adminPort }}}
      {{- if and (eq .role "single") .facts.kafkaPort }}
      - {name: kafka, containerPort: {{ .facts.kafkaPort }}}
      {{- end }}
    {{- include "skybridge.probes" . | nindent 4 }}
    {{- if $spools }}
    # Until the spools are empty, or the time is over: what is left is drained by the next pod of this name.
    lifecycle:
      preStop: {exec: {command: [sh, -c, "sleep {{ $values.preStopSeconds }}; exec skybridge status --drained {{ $values.gateway.drainSeconds }}"]}}
    {{- else if and $takes $values.preStopSeconds }}
    lifecycle:
      preStop: {exec: {command: [sleep, "{{ $values.preStopSeconds }}"]}}
    {{- end }}
    securityContext:
      {{- include "skybridge.containerSecurity" .root | nindent 6 }}
    resources:
      {{- toYaml .resources | nindent 6 }}
    volumeMounts:
      {{- include "skybridge.mounts" .root | nindent 6 }}
      {{- if and (not $operator) (or (eq .role "single") .facts.spools) }}
      - {name: data, mountPath: /var/lib/skybridge}
      {{- end }}
volumes:
  {{- include "skybridge.volumes" (dict "root" .root "configMap" (include "skybridge.fullname" .root)) | nindent 2 }}
  {{- if and (eq .role "worker") .facts.spools }}
  - {name: data, emptyDir: {}} # a worker opens the log of the spools too, and has nothing in it
  {{- end }}
  {{- if eq .role "single" }}
  {{- with include "skybridge.foreignClaim" .root }}
  - name: data
    persistentVolumeClaim: {claimName: {{ . }}}
  {{- end }}
  {{- end }}
{{- end -}}

{{/* dict "root" $ "role" role "facts" facts "optional" whether a Secret may be missing. SKYBRIDGE_SERVER__... override the configuration; SKYBRIDGE_ADMIN_TOKEN and SKYBRIDGE_SERVER are for `skybridge` verbs in the pod. */}}
{{- define "skybridge.podEnvironment" -}}
{{- $optional := ternary ", optional: true" "" (default false .optional) -}}
{{- $token := printf "{secretKeyRef: {name: %q, key: %q%s}}" .root.Values.adminToken.existingSecret .root.Values.adminToken.key $optional -}}
- {name: SKYBRIDGE_SERVER__EVENTS__HOST, value: {{ .root.Values.listenAddress | quote }}}
- {name: SKYBRIDGE_SERVER__ADMIN__HOST, value: {{ .root.Values.listenAddress | quote }}}
- name: SKYBRIDGE_SERVER__ADMIN__TOKEN
  valueFrom: {{ $token }}
- name: SKYBRIDGE_ADMIN_TOKEN
  valueFrom: {{ $token }}
{{- if .root.Values.serviceMonitor.enabled }}
{{- $metrics := printf "SKYBRIDGE_SERVER__ADMIN__TOKENS__%v__" .facts.adminTokens }}
- {name: {{ $metrics }}NAME, value: prometheus}
- {name: {{ $metrics }}SCOPES, value: '["metrics"]'}
- name: {{ $metrics }}TOKEN
  valueFrom: {secretKeyRef: {name: {{ .facts.metricsSecret | quote }}, key: {{ .root.Values.metricsToken.key | quote }}{{ $optional }}}}
{{- end }}
- {name: SKYBRIDGE_SERVER, value: "{{ .facts.adminScheme }}://127.0.0.1:{{ .facts.adminPort }}"}
{{- range $listener, $tls := .root.Values.tls }}
{{- if $tls.existingSecret }}
- {name: SKYBRIDGE_SERVER__{{ upper $listener }}__TLS__CERT, value: /etc/skybridge-tls/{{ $listener }}/tls.crt}
- {name: SKYBRIDGE_SERVER__{{ upper $listener }}__TLS__KEY, value: /etc/skybridge-tls/{{ $listener }}/tls.key}
{{- end }}
{{- end }}
{{- if and (eq .role "worker") (eq .root.Values.worker.kind "StatefulSet") }}
{{- range .facts.kafka }}
# Static membership: the pod's name stays, so its partitions do.
- name: SKYBRIDGE_BROKERS__{{ . | upper | replace "-" "_" | replace "." "_" }}__INSTANCE_ID
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}
{{- end }}
{{- include "skybridge.operatorEnvironment" . }}
{{- include "skybridge.environmentOf" (dict "root" .root "optional" (default false .optional)) }}
{{- end -}}

{{/* The volume of each pod of a StatefulSet. The argument: $ */}}
{{- define "skybridge.claims" -}}
persistentVolumeClaimRetentionPolicy:
  whenDeleted: {{ .Values.persistence.whenDeleted }}
  whenScaled: Retain
volumeClaimTemplates:
  - metadata:
      name: data
      {{- with .Values.persistence.annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      accessModes: [{{ .Values.persistence.accessMode }}]
      {{- with .Values.persistence.storageClassName }}
      storageClassName: {{ . }}
      {{- end }}
      resources: {requests: {storage: {{ .Values.persistence.size }}}}
{{- end -}}

{{- define "skybridge.probes" -}}
{{- $probes := .root.Values.probes -}}
{{- $scheme := upper .facts.adminScheme -}}
startupProbe:
  httpGet: {path: /healthz, port: admin, scheme: {{ $scheme }}}
  periodSeconds: 2
  failureThreshold: {{ div (add $probes.startupSeconds 1) 2 }}
# The process lives and its loop turns: never asks a broker.
livenessProbe:
  httpGet: {path: /healthz, port: admin, scheme: {{ $scheme }}}
  periodSeconds: {{ $probes.periodSeconds }}
  timeoutSeconds: 5
  failureThreshold: {{ $probes.failureThreshold }}
# A subscription that restarts takes no pod out of the Service of events.
readinessProbe:
  httpGet: {path: {{ get (dict "worker" "/readyz?role=worker" "operator" "/readyz") .role | default "/readyz?role=gateway" | quote }}, port: admin, scheme: {{ $scheme }}}
  periodSeconds: {{ $probes.periodSeconds }}
  timeoutSeconds: 5
  failureThreshold: {{ $probes.failureThreshold }}
{{- end -}}

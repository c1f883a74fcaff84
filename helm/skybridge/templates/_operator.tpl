{{/* The operator of Subscriptions: its names, its settings and its rights. */}}

{{/* The group of the objects, which app/… names too; a test compares both. */}}
{{- define "skybridge.group" -}}
skybridge.example.org
{{- end -}}

{{- define "skybridge.operatorName" -}}
{{ include "skybridge.fullname" . }}-operator
{{- end -}}

{{/* The Lease, by which objects name their operator: without overrides, so that a release with another name keeps its objects. */}}
{{- define "skybridge.operatorLease" -}}
{{ include "skybridge.operatorName" (dict "Values" (omit .Values "nameOverride" "fullnameOverride") "Release" .Release "Chart" .Chart) }}
{{- end -}}

{{/* The name of a right outside of the namespace of the release. A namespace has no colon, so no other release has this name. */}}
{{- define "skybridge.operatorRight" -}}
{{ .Release.Namespace }}:{{ include "skybridge.operatorName" . }}
{{- end -}}

{{/*
Settings of the operator, which are in the values alone. Every pod gets the operator's token for the admin API; the operator
and the check of the configuration get the rest too. The arguments are those of skybridge.podEnvironment.
*/}}
{{- define "skybridge.operatorEnvironment" -}}
{{- $values := .root.Values.operator -}}
{{- if $values.enabled }}
{{- $optional := ternary ", optional: true" "" (default false .optional) }}
{{- $token := printf "{secretKeyRef: {name: %q, key: %q%s}}" (default .root.Values.adminToken.existingSecret $values.token.existingSecret) $values.token.key $optional }}
{{- if or (eq .role "operator") .check }}
{{- $namespaces := list }}
{{- range $values.namespaces }}
{{- $namespace := dict "name" .name "topics" (.topics | default list) "reply_routes" (.replyRoutes | default list) "hosts" (.hosts | default list) }}
{{- with .subscriptions }}{{ $_ := set $namespace "subscriptions" (int .) }}{{ end }}
{{- $namespaces = append $namespaces $namespace }}
{{- end }}
- {name: SKYBRIDGE_OPERATOR__NAMESPACES, value: {{ toJson $namespaces | quote }}}
- {name: SKYBRIDGE_OPERATOR__LEASE__NAME, value: {{ include "skybridge.operatorLease" .root }}}
- {name: SKYBRIDGE_OPERATOR__LEASE__SECONDS, value: {{ $values.leaseSeconds | quote }}}
- {name: SKYBRIDGE_OPERATOR__DRAIN_TIMEOUT, value: {{ $values.drainTimeout | quote }}}
- {name: SKYBRIDGE_OPERATOR__ADMIN__URL, value: "{{ .facts.adminScheme }}://{{ include "skybridge.fullname" .root }}-api:{{ .facts.adminPort }}"}
{{- with $values.adminCA }}
- {name: SKYBRIDGE_OPERATOR__ADMIN__CA, value: {{ . | quote }}}
{{- end }}
- name: SKYBRIDGE_OPERATOR__ADMIN__TOKEN
  valueFrom: {{ $token }}
{{- end }}
{{- $setting := printf "SKYBRIDGE_SERVER__ADMIN__TOKENS__%d__" (add .facts.adminTokens (ternary 1 0 .root.Values.serviceMonitor.enabled)) }}
- {name: {{ $setting }}NAME, value: kubernetes}
- {name: {{ $setting }}OWNER, value: kubernetes}
- {name: {{ $setting }}SCOPES, value: '["read", "configure"]'}
- name: {{ $setting }}TOKEN
  valueFrom: {{ $token }}
{{- end }}
{{- end -}}

{{/* The sections of the configuration that the operator reads, as JSON. */}}
{{- define "skybridge.operatorSections" -}}
{{- $config := include "skybridge.configText" . | fromYaml -}}
{{- toJson (dict "ca" .Values.operator.adminCA "config" (pick $config "installation" "server" "limits" "timeouts" "log")) -}}
{{- end -}}

{{/* A RoleBinding of the operator. dict "root" $ "namespace" namespace "role" name of the Role */}}
{{- define "skybridge.operatorBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .role | quote }}
  namespace: {{ .namespace }}
  labels:
    {{- include "skybridge.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .role | quote }}}
subjects: [{kind: ServiceAccount, name: {{ include "skybridge.operatorName" .root }}, namespace: {{ .root.Release.Namespace }}}]
{{- end -}}

{{/* The container of a Job that speaks to the API server. dict "root" $ "arguments" words of files/kubernetes.py */}}
{{- define "skybridge.operatorJob" -}}
- name: kubernetes
  image: {{ include "skybridge.image" .root | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [python, /programs/kubernetes.py]
  args:
    {{- toYaml .arguments | nindent 4 }}
  securityContext:
    {{- include "skybridge.containerSecurity" .root | nindent 4 }}
  resources:
    {{- toYaml .root.Values.operator.resources | nindent 4 }}
  volumeMounts:
    - {name: programs, mountPath: /programs, readOnly: true}
{{- end -}}

{{/* The Job that ends the operator and releases its Subscriptions. dict "root" $ "hook" when Helm runs it */}}
{{- define "skybridge.operatorEnd" -}}
{{- $name := include "skybridge.operatorName" .root -}}
{{- $arguments := list "end" "--deployment" $name "--lease" (include "skybridge.operatorLease" .root) "--component" (printf "app.kubernetes.io/instance=%s,app.kubernetes.io/component=operator" .root.Release.Name) -}}
{{- range .root.Values.operator.namespaces }}{{ $arguments = append $arguments .name }}{{ end -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}-end
  labels:
    {{- include "skybridge.labels" .root | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 3
  activeDeadlineSeconds: 300
  template:
    metadata:
      labels: {app.kubernetes.io/name: {{ $name }}-end, app.kubernetes.io/instance: {{ .root.Release.Name | quote }}}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ $name }}
      {{- include "skybridge.jobPod" (dict "Values" .root.Values "token" true) | nindent 6 }}
      containers:
        {{- include "skybridge.operatorJob" (dict "root" .root "arguments" $arguments) | nindent 8 }}
      volumes:
        - name: programs
          configMap: {name: {{ $name }}-end}
{{- end -}}

{{- define "skybridge.faultsOfOperator" -}}
{{- $faults := list -}}
{{- $config := include "skybridge.configText" .root | fromYaml -}}
{{- $operator := .root.Values.operator -}}
{{- if $operator.enabled -}}
{{- if not $operator.namespaces -}}
{{- $faults = append $faults "operator.namespaces is empty: the operator would have no Subscription to read. Cure: {name: team-billing, topics: [orders], hosts: [hooks.example.com]}." -}}
{{- end -}}
{{- if $config.operator -}}
{{- $faults = append $faults "operator is in the configuration, and operator.enabled of the values too: the chart needs the list of namespaces for its Roles. Cure: leave it out of the configuration." -}}
{{- end -}}
{{- if and (eq .facts.adminScheme "https") (not $operator.adminCA) -}}
{{- $faults = append $faults (printf "operator.adminCA is empty, and the admin listener serves https. Cure: the path of the authority of its certificate, a file of secretFiles or extraVolumes. The certificate has to name %s-api." (include "skybridge.fullname" .root)) -}}
{{- end -}}
{{- $size := len (toJson $operator.namespaces) -}}
{{- if gt $size 120000 -}}
{{- $faults = append $faults (printf "operator.namespaces has %d bytes as JSON, and the operator gets it in a variable, which Linux limits to 131072. Cure: prefixes such as orders* and *.example.com in place of long lists, or a second release for some of the namespaces." $size) -}}
{{- end -}}
{{- $names := list -}}
{{- range $operator.namespaces -}}
{{- if has .name $names -}}
{{- $faults = append $faults (printf "operator.namespaces has %s twice. Cure: one entry for a namespace." .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}
{{- toJson $faults -}}
{{- end -}}

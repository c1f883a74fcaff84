{{/* Names and labels. */}}

{{- define "skybridge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* RELEASE-skybridge, or RELEASE alone where it says so already. 40 letters: suffixes and the ordinal of a pod follow. A name of a Service has no dot. */}}
{{- define "skybridge.fullname" -}}
{{- $name := include "skybridge.name" . -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name $release -}}
{{- $release | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" $release $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "skybridge.selector" -}}
app.kubernetes.io/name: {{ include "skybridge.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "skybridge.labels" -}}
{{ include "skybridge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
Of a role: dict "root" $ "role" "gateway" | "worker" | "single" | "operator". The operator has a name of its own, so that
Services and policies of the other roles do not find its pods.
*/}}
{{- define "skybridge.roleSelector" -}}
{{- if eq .role "operator" -}}
app.kubernetes.io/name: {{ include "skybridge.operatorName" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- else -}}
{{ include "skybridge.selector" .root }}
{{- end }}
app.kubernetes.io/component: {{ .role }}
{{- end -}}

{{/* The role that takes events. */}}
{{- define "skybridge.takes" -}}
{{- ternary "single" "gateway" (eq .Values.topology "single") -}}
{{- end -}}

{{/* Gateways of split: with spools each has a volume. */}}
{{- define "skybridge.gatewayKind" -}}
{{- ternary "StatefulSet" "Deployment" (not (empty (include "skybridge.facts" . | fromYaml).spools)) -}}
{{- end -}}

{{- define "skybridge.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "skybridge.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "skybridge.image" -}}
{{- include "skybridge.imageOf" (dict "root" . "image" .Values.image) -}}
{{- end -}}

{{/* dict "root" $ "image" values of an image */}}
{{- define "skybridge.imageOf" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end -}}

{{/* What an upgrade cannot change, for files/fixed.py. It is a ConfigMap whose name depends on the release alone. */}}

{{- define "skybridge.recordName" -}}
{{- printf "%s-%s-fixed" (.Release.Name | replace "." "-" | trunc 40 | trimSuffix "-") .Chart.Name -}}
{{- end -}}

{{/* The claim that the one pod's own StatefulSet would make. */}}
{{- define "skybridge.ownClaim" -}}
{{- printf "data-%s-0" (include "skybridge.fullname" .) -}}
{{- end -}}

{{/* A claim of the user, or nothing: the own one needs no naming. */}}
{{- define "skybridge.foreignClaim" -}}
{{- $claim := .Values.persistence.existingClaim -}}
{{- if ne $claim (include "skybridge.ownClaim" .) -}}{{- $claim -}}{{- end -}}
{{- end -}}

{{- define "skybridge.record" -}}
{{- $facts := include "skybridge.facts" . | fromYaml -}}
{{- $name := include "skybridge.fullname" . -}}
{{- $app := include "skybridge.name" . -}}
{{- $volume := dict "persistence.size" .Values.persistence.size "persistence.accessMode" .Values.persistence.accessMode "persistence.storageClassName" .Values.persistence.storageClassName "persistence.annotations" .Values.persistence.annotations -}}
{{- $roles := dict -}}
{{- if eq .Values.topology "single" -}}
{{- $foreign := include "skybridge.foreignClaim" . -}}
{{- $claim := default (include "skybridge.ownClaim" .) $foreign -}}
{{- $_ := set $roles "single" (dict "kind" "StatefulSet" "name" $name "app" $app "policy" .Values.single.podManagementPolicy "claim" $claim "named" (not (empty .Values.persistence.existingClaim)) "whenDeleted" .Values.persistence.whenDeleted "volume" (ternary dict $volume (not (empty $foreign)))) -}}
{{- else -}}
{{- $kind := include "skybridge.gatewayKind" . -}}
{{- $_ := set $roles "gateway" (dict "kind" $kind "name" (printf "%s-gateway" $name) "app" $app "policy" "Parallel" "claim" "" "named" false "whenDeleted" "Retain" "volume" (ternary $volume dict (eq $kind "StatefulSet"))) -}}
{{- $_ := set $roles "worker" (dict "kind" .Values.worker.kind "name" (printf "%s-worker" $name) "app" $app "policy" "Parallel" "claim" "" "named" false "whenDeleted" "Retain" "volume" dict) -}}
{{- end -}}
{{- toPrettyJson (dict "namespace" .Release.Namespace "record" (include "skybridge.recordName" .) "roles" $roles) -}}
{{- end -}}

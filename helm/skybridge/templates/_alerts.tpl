{{/* The series of this release, as Prometheus labels what it finds through the ServiceMonitor. */}}
{{- define "skybridge.series" -}}
{namespace="{{ .Release.Namespace }}",service="{{ include "skybridge.fullname" . }}-admin"}
{{- end -}}

{{/* files/alerts.yaml with $(series), $(matchers), $(namespace) and $(value of prometheusRule) filled in, and the runbook of each. An alert that needs the archive is left out of a release without one. */}}
{{- define "skybridge.alerts" -}}
{{- $series := include "skybridge.series" . -}}
{{- $text := .Files.Get "files/alerts.yaml" | replace "$(series)" $series | replace "$(matchers)" (trimAll "{}" $series) | replace "$(namespace)" .Release.Namespace -}}
{{- range $name, $value := .Values.prometheusRule -}}
{{- if not (kindIs "slice" $value) -}}
{{- $text = replace (printf "$(%s)" $name) (toString $value) $text -}}
{{- end -}}
{{- end -}}
{{- $written := include "skybridge.configText" . | fromYaml -}}
{{- $archive := and .Values.pipeline.enabled (($written.pipeline | default dict).archive | default dict).metrics -}}
{{- range fromYamlArray $text }}
{{- if or (not .needs) $archive }}
- alert: {{ .alert }}
  expr: {{ .expr | trim | quote }}
  {{- with .for }}
  for: {{ . }}
  {{- end }}
  labels: {severity: {{ .severity }}}
  annotations:
    summary: {{ .summary | quote }}
    runbook_url: {{ printf "%s/%s.md" ($.Values.prometheusRule.runbooks | trimSuffix "/") .runbook | quote }}
{{- end }}
{{- end }}
{{- end -}}

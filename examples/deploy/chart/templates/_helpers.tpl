{{- define "pml.labels" -}}
app.kubernetes.io/name: pml
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

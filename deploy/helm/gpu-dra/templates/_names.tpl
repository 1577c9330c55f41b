{{- define "gpu-dra.labels" -}}
app.kubernetes.io/name: gpu-dra
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "gpu-dra.selector" -}}
app.kubernetes.io/name: gpu-dra
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "gpu-dra.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ .Values.image.repository }}{{ hasPrefix "sha256:" $tag | ternary "@" ":" }}{{ $tag }}
{{- end }}

{{- /* What every name begins with. Helm allows releases of 53 characters, with dots, that begin with a digit. A Service allows 63 in
all, no dots, and a letter first; and some put an account's name into a label, which may have 63. A name that is cut has a hash. */}}
{{- define "gpu-dra.base" -}}
{{- $base := .Release.Name | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $base }}{{ $base = printf "gpu-dra-%s" $base }}{{ end -}}
{{- if gt (len $base) 40 }}{{ $base = printf "%s-%s" (trunc 31 $base | trimSuffix "-") (sha256sum .Release.Name | trunc 8) }}{{ end -}}
{{ $base }}
{{- end }}

{{- define "gpu-dra.plugin" -}}{{ include "gpu-dra.base" . }}-kubelet-plugin{{- end }}
{{- define "gpu-dra.controller" -}}{{ include "gpu-dra.base" . }}-controller{{- end }}

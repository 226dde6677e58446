{{- /* The gateway's config: what the values say, over what follows from the chart. */}}
{{- define "toolgate.gateway.config" -}}
{{- $base := dict
  "apiVersion" "toolgate/v1"
  "kind" "Sidecar"
  "manifests" (list "/etc/toolgate/manifests/*.yaml")
  "admin" (dict "address" "[::]:15020")
  "killSwitch" (dict "stateDir" "/var/lib/toolgate")
}}
{{- mergeOverwrite $base (deepCopy .Values.sidecar.config) (deepCopy .Values.gateway.config) | toYaml }}
{{- end }}

{{- define "toolgate.egress.apiServer" -}}
- ports: [{port: 443, protocol: TCP}, {port: 6443, protocol: TCP}]
  to:
    {{- range .Values.networkPolicy.apiServer }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
{{- end }}

{{- define "toolgate.egress.dns" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
  to:
    - {{ toJson .Values.networkPolicy.dns }}
{{- end }}

{{- /* What sidecars of the values' config ask themselves, past the gateway, beside what follows from the chart: token endpoints of bindings, keys of
issuers and collectors, as URLs. */}}
{{- define "toolgate.sidecar.asks" -}}
{{- $urls := list }}
{{- range dig "broker" "bindings" list .Values.sidecar.config }}
{{- range $way := values . }}
{{- if kindIs "map" $way }}{{- $urls = concat $urls (list (get $way "tokenURL") (get $way "revocationURL")) }}{{- end }}
{{- end }}
{{- end }}
{{- range dig "identity" "issuers" list .Values.sidecar.config }}
{{- $urls = append $urls (.jwksURL | default .issuer) }}
{{- end }}
{{- $urls = append $urls (dig "tracing" "endpoint" "" .Values.sidecar.config) }}
{{- $urls = append $urls (dig "audit" "otlp" "endpoint" "" .Values.sidecar.config) }}
{{- if not (include "toolgate.keysFromAPI" .) }}{{- $urls = append $urls .Values.cluster.jwksURL }}{{- end }}
{{- $urls | compact | uniq | sortAlpha | toJson }}
{{- end }}

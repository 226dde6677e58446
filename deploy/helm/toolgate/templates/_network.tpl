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

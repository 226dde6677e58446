{{- define "toolgate.injector.args" -}}
- serve
- --settings=/etc/toolgate/settings/settings.yaml
- --listen=:8443
- --metrics-listen=:8080
- --name={{ include "toolgate.fullname" . }}
- --namespace=$(POD_NAMESPACE)
- --shutdown-delay={{ .Values.injector.shutdownDelay }}
- --log-level={{ .Values.injector.log.level }}
{{- if .Values.certManager.enabled }}
- --tls-dir=/etc/toolgate/tls
{{- end }}
{{- end }}

{{- define "toolgate.injector.mounts" -}}
{{- if .Values.certManager.enabled }}
- {name: tls, mountPath: /etc/toolgate/tls, readOnly: true}
{{- end }}
{{- if or .Values.killSwitch.enabled .Values.gateway.enabled }}
- {name: killswitch, mountPath: /etc/toolgate/killswitch, readOnly: true}
{{- end }}
{{- end }}

{{- define "toolgate.injector.volumes" -}}
{{- if .Values.certManager.enabled }}
- name: tls
  secret: {secretName: {{ include "toolgate.fullname" . }}-injector-tls, defaultMode: 0440}
{{- end }}
{{- if or .Values.killSwitch.enabled .Values.gateway.enabled }}
# The public halves alone. Optional, since the injector itself makes these Secrets at its first start.
- name: killswitch
  projected:
    defaultMode: 0440
    sources:
      - secret: {name: {{ include "toolgate.killSwitch.keySecret" . }}, optional: true, items: [{key: public-key, path: public-key}]}
      - secret: {name: {{ include "toolgate.fullname" . }}-ca, optional: true, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- end }}

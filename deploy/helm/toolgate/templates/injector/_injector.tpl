{{- define "toolgate.injector.args" -}}
- serve
- --settings=/etc/toolgate/settings/settings.yaml
- --listen=:8443
- --metrics-listen=:8080
- --release={{ include "toolgate.fullname" . }}
- --namespace=$(POD_NAMESPACE)
- --shutdown-delay={{ .Values.injector.shutdownDelay }}
{{- if .Values.crds.install }}
- --crd
{{- end }}
{{- if .Values.certManager.enabled }}
- --cert-dir=/etc/toolgate/tls
{{- else }}
- --webhook-config={{ include "toolgate.fullname" . }}-injector
- --files=/run/toolgate
{{- if include "toolgate.killSwitch.admin" . }}
- --killswitch-admin
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.injector.mounts" -}}
{{- if .Values.certManager.enabled }}
- {name: tls, mountPath: /etc/toolgate/tls, readOnly: true}
{{- else }}
- {name: files, mountPath: /run/toolgate}
{{- end }}
{{- range $volume, $_ := include "toolgate.injector.given" . | fromYaml }}
- {name: {{ $volume }}, mountPath: /etc/toolgate/{{ $volume }}, readOnly: true}
{{- end }}
{{- end }}

{{- /* Secrets of others' making, of which the settings need the public part: name of the volume, Secret and key. */}}
{{- define "toolgate.injector.given" -}}
{{- if .Values.killSwitch.enabled }}
{{- with .Values.killSwitch.signingKeySecret }}
killswitch-key: {secret: {{ . }}, key: public-key}
{{- end }}
{{- if .Values.killSwitch.nats.external }}
{{- with .Values.killSwitch.nats.caSecret }}
killswitch-ca: {secret: {{ . }}, key: ca.crt}
{{- end }}
{{- else }}
{{- with .Values.killSwitch.tlsSecret }}
killswitch-ca: {secret: {{ . }}, key: ca.crt}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.injector.volumes" -}}
{{- if .Values.certManager.enabled }}
- name: tls
  secret: {secretName: {{ include "toolgate.fullname" . }}-injector-tls, defaultMode: 0440}
{{- else }}
# What the injector itself has made of ca.crt and public-key, since a mounted Secret would come a minute late.
- name: files
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- end }}
{{- range $volume, $of := include "toolgate.injector.given" . | fromYaml }}
- name: {{ $volume }}
  secret: {secretName: {{ $of.secret }}, defaultMode: 0440, items: [{key: {{ $of.key }}, path: {{ $of.key }}}]}
{{- end }}
{{- end }}

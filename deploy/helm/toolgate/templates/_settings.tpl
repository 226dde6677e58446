{{- /* The injector's settings file. */}}
{{- define "toolgate.settings" -}}
apiVersion: toolgate/v1
kind: Injector
sidecarImage: {{ include "toolgate.image" (list . .Values.sidecar.image) | quote }}
fenceImage: {{ include "toolgate.image" (list . .Values.fence.image) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
mode: {{ .Values.injection.traffic }}
uid: {{ .Values.sidecar.uid }}
toolUID: {{ .Values.sidecar.toolUID }}
ipv6: {{ .Values.sidecar.ipv6 }}
resources: {{ include "toolgate.quantities" .Values.sidecar.resources }}
fenceResources: {{ include "toolgate.quantities" .Values.fence.resources }}
probes: {{ toJson .Values.sidecar.probes }}
tokenAudience: {{ .Values.sidecar.tokenAudience | quote }}
cluster: {issuer: {{ .Values.cluster.issuer | quote }}, jwksURL: {{ .Values.cluster.jwksURL | quote }}}
secretName: {{ .Values.sidecar.secretName | quote }}
ca: {{ toJson .Values.sidecar.ca }}
proxyVariables: {{ toJson .Values.sidecar.proxyVariables }}
passthrough: {{ toJson .Values.sidecar.passthrough }}
toolsDir: /etc/toolgate/tools
{{- if .Values.killSwitch.enabled }}
killSwitch:
  servers: {{ include "toolgate.killSwitch.servers" . }}
  publicKeyFile: /etc/toolgate/killswitch/public-key
  caFile: /etc/toolgate/killswitch/ca.crt
  credentialsURL: {{ printf "https://%s:15030/v1/credentials" (include "toolgate.killSwitch.host" .) }}
  audience: {{ .Values.killSwitch.audience | quote }}
{{- end }}
{{- if .Values.gateway.enabled }}
gateway:
  address: {{ printf "%s-gateway.%s.svc:15443" (include "toolgate.fullname" .) .Release.Namespace }}
  caFile: /etc/toolgate/killswitch/ca.crt
  audience: {{ .Values.gateway.audience | quote }}
{{- end }}
sidecarConfig: {{ toJson .Values.sidecar.config }}
{{- end }}

{{- define "toolgate.quantities" -}}
{{- dict "cpuRequest" .requests.cpu "cpuLimit" .limits.cpu "memoryRequest" .requests.memory "memoryLimit" .limits.memory | toJson }}
{{- end }}

{{- define "toolgate.killSwitch.servers" -}}
{{- .Values.killSwitch.nats.external | default (list (printf "tls://%s:4222" (include "toolgate.killSwitch.host" .))) | toJson }}
{{- end }}

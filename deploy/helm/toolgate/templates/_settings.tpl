{{- /* The injector's settings file. */}}
{{- define "toolgate.settings" -}}
{{- include "toolgate.written" (list "sidecar.config" .Values.sidecar.config) }}
apiVersion: toolgate/v1
kind: Injector
sidecarImage: {{ include "toolgate.image" (list . .Values.sidecar.image) | quote }}
fenceImage: {{ include "toolgate.image" (list . .Values.fence.image) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
mode: {{ .Values.injection.traffic }}
requireFence: {{ eq (include "toolgate.fence.require" .) "always" }}
uid: {{ .Values.sidecar.uid }}
toolUID: {{ .Values.sidecar.toolUID }}
ipv6: {{ .Values.sidecar.ipv6 }}
requireAllowedTools: {{ .Values.injection.requireAllowedTools }}
unknownPodFields: {{ .Values.injection.unknownPodFields }}
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
  publicKeyFile: {{ ternary "/etc/toolgate/killswitch-key" "/run/toolgate" (not (empty .Values.killSwitch.signingKeySecret)) }}/public-key
  {{- if not .Values.killSwitch.nats.external }}
  caFile: {{ ternary "/etc/toolgate/killswitch-ca" "/run/toolgate" (not (empty .Values.killSwitch.tlsSecret)) }}/ca.crt
  credentialsURL: {{ printf "https://%s:15030/v1/sidecar-credentials" (include "toolgate.killSwitch.host" .) }}
  {{- else if .Values.killSwitch.nats.caSecret }}
  caFile: /etc/toolgate/killswitch-ca/ca.crt
  {{- end }}
  audience: {{ .Values.killSwitch.audience | quote }}
{{- end }}
{{- if .Values.gateway.enabled }}
gateway:
  {{- /* The whole name, as sidecars try no search domains for it; the certificate does not know the domain. */}}
  address: {{ printf "%s-gateway.%s.svc.%s:15443" (include "toolgate.fullname" .) .Release.Namespace .Values.cluster.domain }}
  serverName: {{ printf "%s-gateway.%s.svc" (include "toolgate.fullname" .) .Release.Namespace }}
  caFile: /run/toolgate/ca.crt
  audience: {{ .Values.gateway.audience | quote }}
{{- end }}
sidecarConfig: {{ toJson .Values.sidecar.config }}
{{- end }}

{{- /* "true" where the issuer's keys are the API server's to give, which wants a token for that. */}}
{{- define "toolgate.keysFromAPI" -}}
{{- if regexMatch "^https://kubernetes\\.default\\.svc([.]|/|$)" .Values.cluster.jwksURL }}true{{ end }}
{{- end }}

{{- define "toolgate.quantities" -}}
{{- dict "cpuRequest" .requests.cpu "cpuLimit" .limits.cpu "memoryRequest" .requests.memory "memoryLimit" .limits.memory | toJson }}
{{- end }}

{{- define "toolgate.killSwitch.servers" -}}
{{- .Values.killSwitch.nats.external | default (list (printf "tls://%s:4222" (include "toolgate.killSwitch.host" .))) | toJson }}
{{- end }}

{{- define "toolgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The prefix of every name. Short enough for "-killswitch-key" behind it. */}}
{{- define "toolgate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "toolgate.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "toolgate.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* What a Deployment's selector has, which can never change. Call with (list . "component"). */}}
{{- define "toolgate.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "toolgate.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "toolgate.labels" -}}
{{- $root := index . 0 -}}
{{ include "toolgate.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: toolgate
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* registry/repository, to which a tag or a digest is added. Call with (list . image). */}}
{{- define "toolgate.repository" -}}
{{- $root := index . 0 }}{{- $image := index . 1 }}
{{- if $root.Values.image.registry }}{{ $root.Values.image.registry }}/{{ end }}{{ $image.repository }}
{{- end }}

{{- define "toolgate.image" -}}
{{- $root := index . 0 }}{{- $image := index . 1 }}
{{- include "toolgate.repository" . }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Of every pod of the release. */}}
{{- define "toolgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 64117
runAsGroup: 64117
fsGroup: 64117
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "toolgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* Where several replicas go: never two on a node if another is free, and over zones. Call with (list . "component"). */}}
{{- define "toolgate.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "toolgate.selector" . | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "toolgate.selector" . | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}

{{- /* What a pod may say about where it runs. Call with the component's values. */}}
{{- define "toolgate.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* Where the platform keeps every tool in, no annotation of a pod's author takes that back, unless the platform says so. */}}
{{- define "toolgate.fence.require" -}}
{{- .Values.fence.require | default (ternary "always" "annotated" (eq .Values.injection.traffic "transparent")) }}
{{- end }}

{{- define "toolgate.webhook" -}}
{{- if eq .Values.injection.mode "webhook" }}true{{ end }}
{{- end }}

{{- /* Names of Secrets that the injector makes unless the values name others. */}}
{{- define "toolgate.killSwitch.tlsSecret" -}}
{{- .Values.killSwitch.tlsSecret | default (printf "%s-killswitch-tls" (include "toolgate.fullname" .)) }}
{{- end }}
{{- define "toolgate.killSwitch.keySecret" -}}
{{- .Values.killSwitch.signingKeySecret | default (printf "%s-killswitch-key" (include "toolgate.fullname" .)) }}
{{- end }}

{{- define "toolgate.killSwitch.host" -}}
{{- printf "%s-killswitch.%s.svc" (include "toolgate.fullname" .) .Release.Namespace }}
{{- end }}

{{- /* "true" where people or machines other than kubectl port-forward may ask the API. */}}
{{- define "toolgate.killSwitch.open" -}}
{{- if or .Values.killSwitch.tokensSecret .Values.killSwitch.oidc.issuer }}true{{ end }}
{{- end }}

{{- /* "true" where the injector makes the token of a first admin, since there is no other way to ask. */}}
{{- define "toolgate.killSwitch.admin" -}}
{{- if and .Values.killSwitch.enabled (not (include "toolgate.killSwitch.open" .)) (include "toolgate.webhook" .) (not .Values.certManager.enabled) }}true{{ end }}
{{- end }}

{{- /* "true" where nobody has a token. */}}
{{- define "toolgate.killSwitch.nobody" -}}
{{- if not (or (include "toolgate.killSwitch.open" .) (include "toolgate.killSwitch.admin" .)) }}true{{ end }}
{{- end }}

{{- /* Namespaces whose pods are gated. It is the same for webhook and policies, so that neither judges what the other leaves. */}}
{{- define "toolgate.namespaceSelector" -}}
matchExpressions:
  - {key: toolgate/inject, operator: In, values: [enabled]}
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
      {{- concat (list "kube-system" "kube-node-lease" "kube-public" .Release.Namespace) .Values.injection.excludedNamespaces | uniq | toYaml | nindent 6 }}
{{- end }}

{{- /* Refuses files that a sidecar or gateway could not write, and more of them than its volume holds: the kubelet evicts a pod whose volume is
too full. Call with (list where config). */}}
{{- define "toolgate.written" -}}
{{- $where := index . 0 }}{{- $audit := (index . 1).audit | default dict }}{{- $most := 0 }}
{{- with $audit.output }}{{- if not (has . (list "stdout" "stderr")) }}
{{- if not (hasPrefix "/var/lib/toolgate/" .) }}
{{- fail (printf "%s.audit.output is %q, where nothing can be written; set stdout, or a file below /var/lib/toolgate/" $where .) }}
{{- end }}
{{- $rotate := $audit.rotate | default dict }}
{{- if not $rotate.maxBytes }}
{{- fail (printf "%s.audit.output is a file on a volume of 64 MiB; set audit.rotate.maxBytes and audit.rotate.keep, so that it fits" $where) }}
{{- end }}
{{- $most = mul (int64 $rotate.maxBytes) (add 1 (int64 ($rotate.keep | default 10))) }}
{{- end }}{{- end }}
{{- with $audit.capture }}
{{- if not (hasPrefix "/var/lib/toolgate/" (toString .dir)) }}
{{- fail (printf "%s.audit.capture.dir is %q, where nothing can be written; set a folder below /var/lib/toolgate/" $where (toString .dir)) }}
{{- end }}
{{- $most = add $most (mul (int64 (.maxFileBytes | default 16777216)) (len (.tools | default list))) }}
{{- end }}
{{- if gt (int64 $most) 67108864 }}
{{- fail (printf "%s.audit may write %d bytes, and the volume has 67108864; set a smaller audit.rotate.maxBytes or keep, or audit.capture.maxFileBytes" $where (int64 $most)) }}
{{- end }}
{{- end }}

{{- /* Pieces of CEL that several validations share. Values come in as literals by toJson, never by bare interpolation. */}}

{{- /* Capabilities that help no container past the rules, at another process or to another's user id; the injector has the same list
(inject/pod/isolated.go). What is not in it is refused, also what later kernels add. */}}
{{- define "toolgate.cel.harmless" -}}
['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'IPC_LOCK', 'KILL', 'LEASE', 'LINUX_IMMUTABLE', 'MKNOD', 'NET_BIND_SERVICE', 'SYS_CHROOT', 'SYS_NICE', 'SYS_RESOURCE', 'SYS_TIME', 'WAKE_ALARM']
{{- end }}

{{- /* Whether container c has an image of a repository. Call with (list . image). */}}
{{- define "toolgate.cel.imageOf" -}}
{{- $repository := include "toolgate.repository" . -}}
(c.image == '{{ $repository }}' || c.image.startsWith('{{ $repository }}:') || c.image.startsWith('{{ $repository }}@'))
{{- end }}

{{- /* On an update, whether init container c has the image that it had: a chart that names a new repository must not refuse what the
kubelet reports of pods that run. */}}
{{- define "toolgate.cel.sameImage" -}}
(!variables.creates && oldObject.spec.?initContainers.orValue([]).exists(o, o.name == c.name && o.image == c.image))
{{- end }}

{{- /* The names of containers of a list for which a condition is false. Call with (list "variables.x" "condition of c"). */}}
{{- define "toolgate.cel.names" -}}
{{ index . 0 }}.filter(c, !({{ index . 1 }})).map(c, c.name).join(', ')
{{- end }}

{{- define "toolgate.cel.noStrong" -}}
c.?securityContext.?capabilities.?add.orValue([]).all(a, a.upperAscii().replace('CAP_', '') in {{ include "toolgate.cel.harmless" . }})
{{- end }}

{{- define "toolgate.cel.notPrivileged" -}}
!c.?securityContext.?privileged.orValue(false)
{{- end }}

{{- /* Neither the sidecar's user id nor its group id. */}}
{{- define "toolgate.cel.notOurs" -}}
c.?securityContext.?runAsUser.orValue(-1) != {{ int64 .Values.sidecar.uid }} && c.?securityContext.?runAsGroup.orValue(-1) != {{ int64 .Values.sidecar.uid }}
{{- end }}

{{- /* Of the chart's volumes, the CA's alone and that read-only. */}}
{{- define "toolgate.cel.mounts" -}}
c.?volumeMounts.orValue([]).all(m, !(m.name in ['toolgate-ca-key', 'toolgate-state', 'toolgate-token', 'toolgate-secrets']) && (m.name != 'toolgate-ca' || m.?readOnly.orValue(false)))
{{- end }}

{{- /* No value of the sidecar's Secret as an environment variable. */}}
{{- define "toolgate.cel.env" -}}
c.?env.orValue([]).all(e, e.?valueFrom.?secretKeyRef.?name.orValue('') != '{{ .Values.sidecar.secretName }}') && c.?envFrom.orValue([]).all(e, e.?secretRef.?name.orValue('') != '{{ .Values.sidecar.secretName }}')
{{- end }}

{{- /* Pieces of CEL that several validations share. Values come in as literals by toJson, never by bare interpolation. */}}

{{- /* Capabilities that help no container past the rules, at another process or to another's user id; the injector has the same list
(inject/pod/isolated.go). What is not in it is refused, also what later kernels add. */}}
{{- define "toolgate.cel.harmless" -}}
['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'IPC_LOCK', 'KILL', 'LEASE', 'LINUX_IMMUTABLE', 'MKNOD', 'NET_BIND_SERVICE', 'SYS_CHROOT', 'SYS_NICE', 'SYS_RESOURCE', 'SYS_TIME', 'WAKE_ALARM']
{{- end }}

{{- /* Repositories whose images are ours, as a list of commas: the release's, and the one before it, which injectors name until the upgrade has
replaced them. The policy itself remembers it, so that an upgrade that is tried again does not forget. Call with (list . image name). */}}
{{- define "toolgate.repositories" -}}
{{- $root := index . 0 }}{{- $name := index . 2 }}{{- $former := $root.Values.backstop.formerRepositories }}
{{- $own := include "toolgate.repository" (list $root (index . 1)) }}
{{- $all := list $own }}
{{- if $former.previous }}
{{- $policy := lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" (printf "%s-fenced-pods" (include "toolgate.fullname" $root)) }}
{{- $had := splitList "," (dig "metadata" "annotations" (printf "toolgate/%s-repositories" $name) "" ($policy | default dict)) | compact }}
{{- if $had }}
{{- $all = ternary (concat $all (rest $had)) (append $all (first $had)) (eq (first $had) $own) }}
{{- end }}
{{- end }}
{{- $all | uniq | join "," }}
{{- end }}

{{- /* The same, with those that the values name. */}}
{{- define "toolgate.repositories.all" -}}
{{- concat (splitList "," (include "toolgate.repositories" .)) (get (index . 0).Values.backstop.formerRepositories (index . 2)) | uniq | join ", " }}
{{- end }}

{{- /* Whether container c has an image of ours. What follows the repository is a tag or a digest, and no other repository. Call with
(list . image name). */}}
{{- define "toolgate.cel.imageOf" -}}
{{ splitList ", " (include "toolgate.repositories.all" .) | toJson }}.exists(r, c.image.startsWith(r) && c.image.substring(r.size()).matches('^(:[a-zA-Z0-9_.-]+)?(@[a-z0-9]+:[a-f0-9]+)?$'))
{{- end }}

{{- /* A container of ours takes its config from its own text, runs nothing of the author's, and has at its places what is ours. What others add for a
cloud's identity, below /var/run/secrets, may stand beside it. */}}
{{- define "toolgate.cel.asMade" -}}
!has(c.lifecycle) && !has(c.envFrom) && c.?env.orValue([]).filter(e, e.name == 'TOOLGATE_CONFIG' && has(e.value)).size() == 1 && c.?env.orValue([]).all(e, !(e.name in ['SSL_CERT_FILE', 'SSL_CERT_DIR', 'GODEBUG']) && (e.name != 'TOOLGATE_CONFIG' || has(e.value))) && c.?volumeMounts.orValue([]).all(m, (m.name in ['toolgate-ca', 'toolgate-ca-key', 'toolgate-state', 'toolgate-token', 'toolgate-secrets'] ? {'toolgate-ca': '/var/run/toolgate/ca', 'toolgate-ca-key': '/var/lib/toolgate-ca', 'toolgate-state': '/var/lib/toolgate', 'toolgate-token': '/var/run/secrets/toolgate', 'toolgate-secrets': '/etc/toolgate/secrets'}[m.name] == m.mountPath && !has(m.subPath) && !has(m.subPathExpr) : m.mountPath.startsWith('/var/run/secrets/') && !m.mountPath.contains('..') && !m.mountPath.contains('//') && !m.mountPath.startsWith('/var/run/secrets/toolgate')))
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

{{- /* No probe and no hook of container c has the kubelet ask another host than the pod. */}}
{{- define "toolgate.cel.asksItself" -}}
[c.?livenessProbe, c.?readinessProbe, c.?startupProbe, c.?lifecycle.?postStart, c.?lifecycle.?preStop].all(h, h.?httpGet.?host.orValue('') == '' && h.?tcpSocket.?host.orValue('') == '')
{{- end }}

{{- /* The sidecar as a CEL value. Call with (list . name text). */}}
{{- define "toolgate.policy.sidecar" -}}
{{- $root := index . 0 }}{{- $v := $root.Values }}{{- $uid := int64 $v.sidecar.uid }}{{- $p := $v.sidecar.probes -}}
Object.spec.initContainers{
  name: 'toolgate',
  image: {{ include "toolgate.image" (list $root $v.sidecar.image) | toJson }},
  imagePullPolicy: {{ $v.image.pullPolicy | toJson }},
  args: ['run', '--config', 'env:TOOLGATE_CONFIG'],
  restartPolicy: 'Always',
  env: [
    Object.spec.initContainers.env{name: 'TOOLGATE_CONFIG', value: {{ include "toolgate.policy.config" . | replace "$" "$$" | toJson }}},
    Object.spec.initContainers.env{name: 'TOOLGATE_MEMORY_LIMIT', valueFrom: Object.spec.initContainers.env.valueFrom{resourceFieldRef: Object.spec.initContainers.env.valueFrom.resourceFieldRef{containerName: 'toolgate', resource: 'limits.memory'}}},
    {{- range $name, $path := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" "POD_UID" "metadata.uid" "NODE_NAME" "spec.nodeName" "SERVICE_ACCOUNT" "spec.serviceAccountName" }}
    Object.spec.initContainers.env{name: '{{ $name }}', valueFrom: Object.spec.initContainers.env.valueFrom{fieldRef: Object.spec.initContainers.env.valueFrom.fieldRef{fieldPath: '{{ $path }}'}}},
    {{- end }}
  ],
  terminationMessagePolicy: 'FallbackToLogsOnError',
  ports: [Object.spec.initContainers.ports{name: 'toolgate-admin', containerPort: 15020, protocol: 'TCP'}],
  resources: Object.spec.initContainers.resources{requests: {{ toJson $v.sidecar.resources.requests }}, limits: {{ toJson $v.sidecar.resources.limits }}},
  securityContext: Object.spec.initContainers.securityContext{
    runAsUser: {{ $uid }}, runAsGroup: {{ $uid }}, runAsNonRoot: true, allowPrivilegeEscalation: false, privileged: false, readOnlyRootFilesystem: true,
    capabilities: Object.spec.initContainers.securityContext.capabilities{drop: ['ALL']},
    seccompProfile: Object.spec.initContainers.securityContext.seccompProfile{type: 'RuntimeDefault'}
  },
  {{- range $probe := list
    (dict "kind" "startupProbe" "path" "/readyz" "period" $p.startupPeriodSeconds "failures" $p.startupFailures)
    (dict "kind" "readinessProbe" "path" "/readyz" "period" $p.readinessPeriodSeconds "failures" 3)
    (dict "kind" "livenessProbe" "path" "/healthz" "period" $p.livenessPeriodSeconds "failures" $p.livenessFailures) }}
  {{ .kind }}: Object.spec.initContainers.{{ .kind }}{
    httpGet: Object.spec.initContainers.{{ .kind }}.httpGet{path: '{{ .path }}', port: 15020, scheme: 'HTTP'},
    periodSeconds: {{ int64 .period }}, failureThreshold: {{ int64 .failures }}, timeoutSeconds: {{ int64 $p.timeoutSeconds }}
  },
  {{- end }}
  volumeMounts: [
    Object.spec.initContainers.volumeMounts{name: 'toolgate-ca', mountPath: '/var/run/toolgate/ca'},
    Object.spec.initContainers.volumeMounts{name: 'toolgate-ca-key', mountPath: '/var/lib/toolgate-ca'},
    Object.spec.initContainers.volumeMounts{name: 'toolgate-state', mountPath: '/var/lib/toolgate'},
    Object.spec.initContainers.volumeMounts{name: 'toolgate-token', mountPath: '/var/run/secrets/toolgate', readOnly: true},
    Object.spec.initContainers.volumeMounts{name: 'toolgate-secrets', mountPath: '/etc/toolgate/secrets', readOnly: true}
  ]
}
{{- end }}

{{- define "toolgate.policy.volumes" -}}
{{- $v := .Values -}}
[
  Object.spec.volumes{name: 'toolgate-ca', emptyDir: Object.spec.volumes.emptyDir{medium: 'Memory', sizeLimit: '4Mi'}},
  Object.spec.volumes{name: 'toolgate-ca-key', emptyDir: Object.spec.volumes.emptyDir{medium: 'Memory', sizeLimit: '1Mi'}},
  Object.spec.volumes{name: 'toolgate-state', emptyDir: Object.spec.volumes.emptyDir{sizeLimit: '64Mi'}},
  Object.spec.volumes{name: 'toolgate-secrets', secret: Object.spec.volumes.secret{secretName: {{ $v.sidecar.secretName | toJson }}, optional: true}},
  Object.spec.volumes{name: 'toolgate-token', projected: Object.spec.volumes.projected{sources: [
    Object.spec.volumes.projected.sources{serviceAccountToken: Object.spec.volumes.projected.sources.serviceAccountToken{path: 'token', audience: {{ $v.sidecar.tokenAudience | toJson }}, expirationSeconds: 3600}},
    Object.spec.volumes.projected.sources{serviceAccountToken: Object.spec.volumes.projected.sources.serviceAccountToken{path: 'killswitch-token', audience: {{ $v.killSwitch.audience | toJson }}, expirationSeconds: 3600}},
    {{- if include "toolgate.keysFromAPI" . }}
    Object.spec.volumes.projected.sources{serviceAccountToken: Object.spec.volumes.projected.sources.serviceAccountToken{path: 'api-token', expirationSeconds: 3600}},
    {{- end }}
    Object.spec.volumes.projected.sources{configMap: Object.spec.volumes.projected.sources.configMap{name: 'kube-root-ca.crt', items: [Object.spec.volumes.projected.sources.configMap.items{key: 'ca.crt', path: 'ca.crt'}]}}
  ]}}
]
{{- end }}

{{- /* What every container of the user's gets: variables that it does not set, and the CA. Of two names that differ in case programs prefer
either, so the user's own by one name counts for both. Call with (list "containers" offset "variables.x" systemBundle). */}}
{{- define "toolgate.policy.containers" -}}
{{ index . 2 }}.transformList(i, c, [
  JSONPatch{op: 'add', path: '/spec/{{ index . 0 }}/' + string(i + {{ index . 1 }}) + '/env', value: c.?env.orValue([]) + variables.env.filter(e, !c.?env.orValue([]).exists(o, o.name.lowerAscii() == e.name.lowerAscii()))},
  JSONPatch{op: 'add', path: '/spec/{{ index . 0 }}/' + string(i + {{ index . 1 }}) + '/volumeMounts', value: c.?volumeMounts.orValue([]).filter(m, m.name != 'toolgate-ca') + [Object.spec.containers.volumeMounts{name: 'toolgate-ca', mountPath: '/var/run/toolgate/ca', readOnly: true}]{{ if index . 3 }} +
    (c.?volumeMounts.orValue([]).exists(m, m.name != 'toolgate-ca' && '/etc/ssl/certs/ca-certificates.crt'.startsWith(m.mountPath)) ? [] : [Object.spec.containers.volumeMounts{name: 'toolgate-ca', mountPath: '/etc/ssl/certs/ca-certificates.crt', subPath: 'ca-bundle.pem', readOnly: true}]){{ end }}}
]).flatten()
{{- end }}

{{- /* A key of the pod's metadata. Call with (list "labels" key "CEL of the value"). */}}
{{- define "toolgate.policy.metadata" -}}
[has(object.metadata.{{ index . 0 }}) ? JSONPatch{op: 'add', path: '/metadata/{{ index . 0 }}/' + jsonpatch.escapeKey('{{ index . 1 }}'), value: {{ index . 2 }}} : JSONPatch{op: 'add', path: '/metadata/{{ index . 0 }}', value: {'{{ index . 1 }}': {{ index . 2 }}}}]
{{- end }}

{{- /* The tool that a pod names, or its namespace. */}}
{{- define "toolgate.policy.tool" -}}
object.metadata.?annotations[?'toolgate/tool'].orValue(namespaceObject.metadata.?labels[?'toolgate/tool'].orValue(''))
{{- end }}

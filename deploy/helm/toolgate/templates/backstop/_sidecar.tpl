{{- /* That the sidecar, and in transparent mode the fence, are there, are ours, and come first. */}}
{{- define "toolgate.validations.sidecar" -}}
- expression: "!variables.creates || variables.sidecar.size() == 1"
  message: >-
    toolgate: the pod has no init container "toolgate" and would not be gated. Is the injector running, and does toolgate/tool on the pod or its
    namespace name a tool that exists?
  reason: Forbidden
- expression: >-
    !variables.creates || variables.sidecar.all(c, c.?restartPolicy.orValue('') == 'Always')
  message: 'toolgate: init container "toolgate" must have restartPolicy: Always; take the container out of the pod and let the injector add it'
  reason: Forbidden
- expression: >-
    variables.sidecar.all(c, variables.creates ? {{ include "toolgate.cel.imageOf" (list . .Values.sidecar.image "sidecar") }} : {{ include "toolgate.cel.sameImage" . }})
  messageExpression: >-
    'toolgate: container "toolgate" has the image ' + variables.sidecar.map(c, c.image).join(', ') + ', expected one of {{ include "toolgate.repositories.all" (list . .Values.sidecar.image "sidecar") }}, as the injector gave it; take the container out of the pod and let the injector add it, and restart a pod for a new one'
  reason: Forbidden
- expression: >-
    !variables.creates || variables.sidecar.all(c, !has(c.command) && c.?args.orValue([]) == ['run', '--config', 'env:TOOLGATE_CONFIG'] && {{ include "toolgate.cel.asMade" . }} && c.?securityContext.?runAsUser.orValue(-1) == {{ int64 .Values.sidecar.uid }} && {{ include "toolgate.cel.notPrivileged" . }} && c.?securityContext.?capabilities.?add.orValue([]).size() == 0)
  message: 'toolgate: init container "toolgate" is not as the injector makes it; take it out of the pod and let the injector add it'
  reason: Forbidden
- expression: >-
    !variables.creates || variables.sidecar.size() != 1 || variables.gated[0].name == 'toolgate'
  messageExpression: >-
    'toolgate: init container "toolgate" must come before ' + variables.gated.filter(c, c.name != 'toolgate').map(c, c.name).join(', ') + ': what runs before it is not gated. Another injector has put its own first: exclude this namespace from it'
  reason: Forbidden
{{- if eq (include "toolgate.fence.require" .) "always" }}
- expression: >-
    !variables.creates || variables.mode == 'transparent'
  message: >-
    toolgate: the pod is in mode explicit, and the platform wants the fence around every pod: set the annotation toolgate/mode to transparent{{ if eq .Values.injection.traffic "transparent" }}, or remove it{{ end }}
  reason: Forbidden
{{- end }}
- expression: >-
    !variables.creates || (variables.fenced ? variables.inits.size() > 0 && variables.inits[0].name == 'toolgate-fence' : variables.fence.size() == 0)
  message: >-
    toolgate: a pod in transparent mode must have init container "toolgate-fence" first, and one in explicit mode must not have it; let the injector add it, and set
    the annotation toolgate/mode
  reason: Forbidden
- expression: >-
    variables.fence.all(c, variables.creates ? {{ include "toolgate.cel.imageOf" (list . .Values.fence.image "fence") }} : {{ include "toolgate.cel.sameImage" . }})
  message: 'toolgate: init container "toolgate-fence" must have an image of {{ include "toolgate.repositories.all" (list . .Values.fence.image "fence") }}; take it out of the pod and let the injector add it'
  reason: Forbidden
- expression: >-
    !variables.creates || variables.fence.all(c, !has(c.command) && !has(c.restartPolicy) && {{ include "toolgate.cel.asMade" . }} && c.?args.orValue([]).size() > 4 && c.args[0] == 'netinit' && c.args[1] == '--config' && c.args[2] == 'env:TOOLGATE_CONFIG' && c.args[3] == '--proxy-uid' && c.args[4] == '{{ int64 .Values.sidecar.uid }}' && c.args.filter(a, a.startsWith('-') && !(a in ['--tool-uid', '--loopback', '--ipv4-only'])).size() == 2 && {{ include "toolgate.cel.notPrivileged" . }} && c.?securityContext.?capabilities.?add.orValue([]).all(a, a == 'NET_ADMIN'))
  message: 'toolgate: init container "toolgate-fence" is not as the injector makes it; take it out of the pod and let the injector add it'
  reason: Forbidden
- expression: >-
    !variables.creates || object.spec.?volumes.orValue([]).all(v, (!(v.name in ['toolgate-ca', 'toolgate-ca-key', 'toolgate-state']) || has(v.emptyDir)) && (v.name != 'toolgate-secrets' || v.?secret.?secretName.orValue('') == '{{ .Values.sidecar.secretName }}') && (v.name != 'toolgate-token' || v.?projected.?sources.orValue([]).all(s, has(s.serviceAccountToken) || s.?configMap.?name.orValue('') == 'kube-root-ca.crt')))
  message: 'toolgate: a volume whose name begins with toolgate- is not as the injector makes it; take it out of the pod and let the injector add it'
  reason: Forbidden
{{- if eq .Values.injection.mode "policy" }}
- expression: >-
    !variables.creates || {{ include "toolgate.policy.tool" . }} in {{ keys .Values.manifests | sortAlpha | toJson }}
  message: 'toolgate: the pod, or its namespace, must name in toolgate/tool one of the tools {{ keys .Values.manifests | sortAlpha | join ", " }}'
  reason: Forbidden
{{- end }}
{{- end }}

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
    variables.sidecar.all(c, {{ include "toolgate.cel.sameImage" . }} || {{ include "toolgate.cel.imageOf" (list . .Values.sidecar.image) }})
  messageExpression: >-
    'toolgate: container "toolgate" has the image ' + variables.sidecar.map(c, c.image).join(', ') + ', expected one of {{ include "toolgate.repository" (list . .Values.sidecar.image) }}; take the container out of the pod and let the injector add it'
  reason: Forbidden
- expression: >-
    !variables.creates || variables.sidecar.all(c, !has(c.command) && c.?args.orValue([]).size() > 0 && c.args[0] == 'run' && c.?securityContext.?runAsUser.orValue(-1) == {{ int64 .Values.sidecar.uid }} && {{ include "toolgate.cel.notPrivileged" . }} && c.?securityContext.?capabilities.?add.orValue([]).size() == 0)
  message: 'toolgate: init container "toolgate" is not as the injector makes it; take it out of the pod and let the injector add it'
  reason: Forbidden
- expression: >-
    !variables.creates || (variables.gated.size() > 0 && variables.gated[0].name == 'toolgate')
  messageExpression: >-
    'toolgate: init container "toolgate" must come before ' + variables.gated.filter(c, c.name != 'toolgate').map(c, c.name).join(', ') + ': what runs before it is not gated. Another injector has put its own first: exclude this namespace from it'
  reason: Forbidden
- expression: >-
    !variables.creates || (variables.fenced ? variables.inits.size() > 0 && variables.inits[0].name == 'toolgate-fence' : variables.fence.size() == 0)
  message: >-
    toolgate: a pod in transparent mode must have init container "toolgate-fence" first, and one in explicit mode must not have it; let the injector add it, and set
    the annotation toolgate/mode
  reason: Forbidden
- expression: >-
    variables.fence.all(c, {{ include "toolgate.cel.sameImage" . }} || {{ include "toolgate.cel.imageOf" (list . .Values.fence.image) }})
  message: 'toolgate: init container "toolgate-fence" must have an image of {{ include "toolgate.repository" (list . .Values.fence.image) }}; take it out of the pod and let the injector add it'
  reason: Forbidden
- expression: >-
    !variables.creates || variables.fence.all(c, !has(c.command) && !has(c.restartPolicy) && c.?args.orValue([]).size() > 0 && c.args[0] == 'netinit' && !c.args.exists(a, a in ['--check', '--remove']) && {{ include "toolgate.cel.notPrivileged" . }} && c.?securityContext.?capabilities.?add.orValue([]).all(a, a == 'NET_ADMIN'))
  message: 'toolgate: init container "toolgate-fence" is not as the injector makes it; take it out of the pod and let the injector add it'
  reason: Forbidden
{{- end }}

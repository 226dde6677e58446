{{- /* What holds for every container that is not ours, ephemeral ones included. */}}
{{- define "toolgate.validations.others" -}}
{{- $uid := int64 .Values.sidecar.uid -}}
{{- $rules := list
  (dict "ok" (include "toolgate.cel.notOurs" .) "say" (printf "runs as %d, which is the sidecar's own user and group id; set another runAsUser and runAsGroup" $uid))
  (dict "ok" (include "toolgate.cel.notPrivileged" .) "say" "is privileged; take that out of its securityContext")
  (dict "ok" (include "toolgate.cel.noStrong" .) "say" "adds a capability by which it could get past the sidecar, such as NET_ADMIN, NET_RAW, SETUID, SETGID, SYS_ADMIN, SYS_PTRACE or ALL; take it out of capabilities.add")
  (dict "ok" (include "toolgate.cel.mounts" .) "say" "mounts a volume of the sidecar; only toolgate-ca may be mounted, with readOnly: true")
  (dict "ok" (include "toolgate.cel.env" .) "say" (printf "reads the Secret %s, which is for the sidecar alone; take it out of env and envFrom" .Values.sidecar.secretName))
}}
{{- range $rules }}
- expression: >-
    (!variables.creates || variables.others.all(c, {{ .ok }})) && variables.ephemeral.all(c, {{ .ok }})
  messageExpression: >-
    'toolgate: container ' + (variables.creates ? variables.others : []).filter(c, !({{ .ok }})).map(c, c.name).join(', ') + {{ include "toolgate.cel.names" (list "variables.ephemeral" .ok) }} + {{ printf " %s" .say | squote | replace "'s own" "\\'s own" }}
  reason: Forbidden
{{- end }}
- expression: >-
    !variables.creates || !variables.fenced || variables.others.all(c, c.?securityContext.?runAsUser.orValue(object.spec.?securityContext.?runAsUser.orValue(0)) > 0)
  messageExpression: >-
    'toolgate: in transparent mode every container needs a user id of its own other than 0; set securityContext.runAsUser of ' + {{ include "toolgate.cel.names" (list "variables.others" "c.?securityContext.?runAsUser.orValue(object.spec.?securityContext.?runAsUser.orValue(0)) > 0") }}
  reason: Forbidden
- expression: >-
    !variables.creates || !variables.fenced || variables.others.all(c, c.?securityContext.?allowPrivilegeEscalation.orValue(true) == false && c.?securityContext.?capabilities.?drop.orValue([]).exists(d, d.upperAscii() == 'ALL'))
  messageExpression: >-
    'toolgate: in transparent mode every container must give up what could take the sidecar\'s user id; set allowPrivilegeEscalation: false and capabilities.drop: [ALL] in the securityContext of ' + {{ include "toolgate.cel.names" (list "variables.others" "c.?securityContext.?allowPrivilegeEscalation.orValue(true) == false && c.?securityContext.?capabilities.?drop.orValue([]).exists(d, d.upperAscii() == 'ALL')") }}
  reason: Forbidden
- expression: >-
    !variables.creates || !variables.fenced || variables.others.all(c, {{ include "toolgate.cel.asksItself" . }})
  messageExpression: >-
    'toolgate: in transparent mode the node must not be sent elsewhere by a probe or lifecycle hook; take host out of those of ' + {{ include "toolgate.cel.names" (list "variables.others" (include "toolgate.cel.asksItself" .)) }}
  reason: Forbidden
- expression: >-
    variables.ephemeral.all(c, c.?securityContext.?runAsNonRoot.orValue(false) && c.?securityContext.?runAsUser.orValue(0) > 0 && c.?securityContext.?allowPrivilegeEscalation.orValue(true) == false && c.?targetContainerName.orValue('') != 'toolgate')
  messageExpression: >-
    'toolgate: ephemeral container ' + variables.ephemeral.map(c, c.name).join(', ') + ' must set runAsNonRoot: true, a runAsUser other than 0 and {{ $uid }}, and allowPrivilegeEscalation: false, and must not target container toolgate; use kubectl debug --profile=restricted --custom'
  reason: Forbidden
{{- end }}

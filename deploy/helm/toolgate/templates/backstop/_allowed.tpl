{{- /* Which tools a namespace lets its pods name: the annotation toolgate/allowed-tools. */}}

{{- define "toolgate.cel.allowedForm" -}}
matches('^[a-z][a-z0-9_.-]{0,62}$')
{{- end }}

{{- define "toolgate.variables.allowed" -}}
# Every tool that the pod names, its namespace's default among them; the injector reads them so (inject/pod/annotations.go).
- name: tools
  expression: >-
    ([object.metadata.?annotations[?'toolgate/tool'].orValue(namespaceObject.metadata.?labels[?'toolgate/tool'].orValue(''))] + object.metadata.?annotations[?'toolgate/tools'].orValue('').split(',').map(e, e.substring(e.indexOf('=') + 1))).map(t, t.trim()).filter(t, t != '')
- name: listed
  expression: "namespaceObject.metadata.?annotations[?'toolgate/allowed-tools'].hasValue()"
- name: allowed
  expression: "namespaceObject.metadata.?annotations[?'toolgate/allowed-tools'].orValue('').split(',').map(t, t.trim())"
{{- end }}

{{- define "toolgate.validations.allowed" -}}
{{- $ask := "whoever may change the namespace (who may do the verb unfence on it)" -}}
{{- if .Values.injection.requireAllowedTools }}
- expression: "!variables.creates || variables.listed"
  messageExpression: >-
    'toolgate: the namespace ' + namespaceObject.metadata.name + ' has no annotation toolgate/allowed-tools, and without one the platform allows no tool: ask {{ $ask }} to add it'
  reason: Forbidden
{{- end }}
- expression: >-
    !variables.creates || !variables.listed || variables.allowed.all(t, t.{{ include "toolgate.cel.allowedForm" . }})
  messageExpression: >-
    'toolgate: the annotation toolgate/allowed-tools of the namespace ' + namespaceObject.metadata.name + ' has an entry that is no name of a tool: it is a list of tools, separated by commas; ask {{ $ask }} to correct it'
  reason: Forbidden
- expression: >-
    !variables.creates || !variables.listed || (variables.tools.size() > 0 && variables.tools.all(t, t in variables.allowed))
  messageExpression: >-
    'toolgate: the tool ' + variables.tools.filter(t, !(t in variables.allowed)).join(', ') + ' is not allowed in the namespace ' + namespaceObject.metadata.name + ', whose annotation toolgate/allowed-tools allows ' + variables.allowed.join(', ') + ': name one of these in toolgate/tool, or ask {{ $ask }} to add it'
  reason: Forbidden
{{- end }}

{{- /* What may not change on a pod that is there: network policies and records go by these labels. */}}
{{- define "toolgate.validations.update" -}}
{{- range $kind := list (list "labels" "oldLabels") (list "annotations" "oldAnnotations") }}
{{- $new := printf "variables.%s" (index $kind 0) }}{{ $old := printf "variables.%s" (index $kind 1) }}
- expression: >-
    variables.creates || ({{ $new }}.all(k, !k.startsWith('toolgate/') || (k in {{ $old }} && {{ $old }}[k] == {{ $new }}[k])) && {{ $old }}.all(k, !k.startsWith('toolgate/') || k in {{ $new }}))
  message: 'toolgate: {{ index $kind 0 }} that begin with toolgate/ cannot be changed on a pod; change them where the pod is made, in its Deployment or Job, and let it be made again'
  reason: Forbidden
{{- end }}
{{- end }}

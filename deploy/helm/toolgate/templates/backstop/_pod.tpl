{{- /* What holds for the pod as a whole. */}}
{{- define "toolgate.validations.pod" -}}
{{- $uid := int64 .Values.sidecar.uid -}}
- expression: >-
    !variables.creates || !(object.spec.?hostNetwork.orValue(false) || object.spec.?hostPID.orValue(false) || object.spec.?hostIPC.orValue(false) || object.spec.?shareProcessNamespace.orValue(false))
  message: >-
    toolgate: take hostNetwork, hostPID, hostIPC and shareProcessNamespace out of the pod, or run it in a namespace without the label toolgate/inject: with them a tool
    reaches around its sidecar
  reason: Forbidden
- expression: >-
    !variables.creates || (object.spec.?securityContext.?runAsUser.orValue(-1) != {{ $uid }} && object.spec.?securityContext.?runAsGroup.orValue(-1) != {{ $uid }} && object.spec.?securityContext.?fsGroup.orValue(-1) != {{ $uid }} && !({{ $uid }} in object.spec.?securityContext.?supplementalGroups.orValue([])))
  message: 'toolgate: the pod''s securityContext uses {{ $uid }}, which is the sidecar''s own user and group id; choose another'
  reason: Forbidden
- expression: >-
    !variables.creates || object.spec.?volumes.orValue([]).all(v, v.name.startsWith('toolgate-') ? v.name in ['toolgate-ca', 'toolgate-ca-key', 'toolgate-state', 'toolgate-token', 'toolgate-secrets'] : v.?secret.?secretName.orValue('') != '{{ .Values.sidecar.secretName }}' && v.?csi.?nodePublishSecretRef.?name.orValue('') != '{{ .Values.sidecar.secretName }}' && v.?flexVolume.?secretRef.?name.orValue('') != '{{ .Values.sidecar.secretName }}' && v.?projected.?sources.orValue([]).all(s, s.?secret.?name.orValue('') != '{{ .Values.sidecar.secretName }}' && !(s.?serviceAccountToken.?audience.orValue('') in ['{{ .Values.sidecar.tokenAudience }}', '{{ .Values.killSwitch.audience }}', '{{ .Values.gateway.audience }}'])))
  message: >-
    toolgate: a volume of the pod holds what is for the sidecar alone: the Secret {{ .Values.sidecar.secretName }}, a token for the audience {{ .Values.sidecar.tokenAudience }},
    {{ .Values.killSwitch.audience }} or {{ .Values.gateway.audience }}, or a name that begins with toolgate-; take it out or rename it
  reason: Forbidden
- expression: >-
    !variables.creates || (object.spec.?hostAliases.orValue([]).size() == 0 && object.spec.?hostnameOverride.orValue('') == '' && object.spec.?dnsPolicy.orValue('') != 'None' && object.spec.?dnsConfig.?nameservers.orValue([]).size() == 0 && object.spec.?dnsConfig.?searches.orValue([]).size() == 0)
  message: >-
    toolgate: take hostAliases, hostnameOverride, dnsPolicy: None and dnsConfig.nameservers and .searches out of the pod: with them an allowed host could be any, as the
    sidecar resolves names as the pod does
  reason: Forbidden
- expression: >-
    !variables.creates || !variables.fenced || object.spec.?volumes.orValue([]).all(v, has(v.configMap) || has(v.csi) || has(v.downwardAPI) || has(v.emptyDir) || has(v.ephemeral) || has(v.hostPath) || has(v.image) || has(v.persistentVolumeClaim) || has(v.projected) || has(v.secret))
  message: >-
    toolgate: a volume of the pod is mounted by the node over the network, which transparent mode does not see; use a persistentVolumeClaim of a class that the
    platform offers
  reason: Forbidden
{{- if not .Values.backstop.allowHostPath }}
- expression: >-
    !variables.creates || object.spec.?volumes.orValue([]).all(v, !has(v.hostPath))
  message: 'toolgate: take volumes of kind hostPath out of the pod: a socket of the node is a way around the sidecar'
  reason: Forbidden
{{- end }}
{{- end }}

{{- /* "true" where the gateway follows the chart's own kill switch by default: not on an existing NATS, for which it would need credentials, and not
where gateway.config has its own. */}}
{{- define "toolgate.gateway.killSwitch" -}}
{{- if and .Values.killSwitch.enabled (not .Values.killSwitch.nats.external) (not (hasKey .Values.gateway.config "killSwitch")) }}true{{ end }}
{{- end }}

{{- /* The gateway's config: what the values say, over what follows from the chart. It knows the tools of .Values.manifests. */}}
{{- define "toolgate.gateway.config" -}}
{{- include "toolgate.written" (list "gateway.config" .Values.gateway.config) }}
{{- $v := .Values }}{{- $tools := keys $v.manifests | sortAlpha }}
{{- if not $tools }}
{{- fail "gateway.enabled needs the tools whose sidecars come, in manifests" }}
{{- end }}
{{- $issuer := dict "issuer" $v.cluster.issuer "jwksURL" $v.cluster.jwksURL }}
{{- if include "toolgate.keysFromAPI" . }}
{{- $issuer = merge $issuer (dict "caFile" "/var/run/secrets/toolgate/ca.crt" "tokenFile" "/var/run/secrets/toolgate/api-token") }}
{{- end }}
{{- $base := dict
  "apiVersion" "toolgate/v1"
  "kind" "Sidecar"
  "manifests" (list "/etc/toolgate/manifests/*.yaml")
  "listeners" (list (dict "name" "gateway" "kind" "gateway" "address" "[::]:15443" "tools" $tools "tls" (dict "certFile" "/etc/toolgate/tls/tls.crt" "keyFile" "/etc/toolgate/tls/tls.key")))
  "admin" (dict "address" "[::]:15020")
  "gateway" (dict
    "tokens" (merge (dict "audiences" (list $v.gateway.audience)) $issuer)
    "workloads" (list (dict "ids" (list "system:serviceaccount:{tenant}:*") "tools" $tools)))
  "identity" (dict "issuers" (list (merge (dict "audiences" (list $v.sidecar.tokenAudience)
    "claims" (dict "tenant" "kubernetes.io.namespace" "agent" "kubernetes.io.serviceaccount.name" "task" "kubernetes.io.pod.name")) $issuer)))
}}
{{- if include "toolgate.gateway.killSwitch" . }}
{{- $nats := dict "servers" (include "toolgate.killSwitch.servers" . | fromJsonArray) "publicKeyFile" "/etc/toolgate/killswitch/public-key"
  "caFile" "/etc/toolgate/killswitch/ca.crt" "tokenFile" "/var/run/secrets/toolgate/killswitch-token"
  "credentialsURL" (printf "https://%s:15030/v1/sidecar-credentials" (include "toolgate.killSwitch.host" .)) }}
{{- $base = merge $base (dict "killSwitch" (dict "stateDir" "/var/lib/toolgate" "nats" $nats)) }}
{{- end }}
{{- $given := dict }}
{{- range list "identity" "egress" "log" }}
{{- if hasKey $v.sidecar.config . }}{{- $_ := set $given . (get $v.sidecar.config .) }}{{- end }}
{{- end }}
{{- mergeOverwrite $base (deepCopy $given) (deepCopy $v.gateway.config) | toYaml }}
{{- end }}

{{- /* The config of a policy-injected sidecar: what the injector would make of one tool in explicit mode. Call with (list . name text). */}}
{{- define "toolgate.policy.config" -}}
{{- $v := (index . 0).Values }}{{- $tool := index . 1 }}
{{- include "toolgate.written" (list "sidecar.config" $v.sidecar.config) }}
{{- $given := deepCopy $v.sidecar.config }}
{{- /* What is about tools that this sidecar has no manifest of would be a mistake to it. */}}
{{- range $at := list (list "broker" "bindings") (list "egress" "allowPrivate") }}
{{- $section := get $given (index $at 0) | default dict }}
{{- if hasKey $section (index $at 1) }}
{{- $kept := list }}
{{- range get $section (index $at 1) }}
{{- if has $tool .tools }}{{- $kept = append $kept (set . "tools" (list $tool)) }}{{- end }}
{{- end }}
{{- $_ := set $section (index $at 1) $kept }}
{{- end }}
{{- end }}
{{- with dig "audit" "capture" dict $given }}
{{- if has $tool (.tools | default list) }}{{- $_ := set . "tools" (list $tool) }}{{- else }}{{- $_ := unset $given.audit "capture" }}{{- end }}
{{- end }}
{{- $issuer := dict "issuer" $v.cluster.issuer "jwksURL" $v.cluster.jwksURL "audiences" (list $v.sidecar.tokenAudience)
  "claims" (dict "tenant" "kubernetes.io.namespace" "agent" "kubernetes.io.serviceaccount.name" "task" "kubernetes.io.pod.name") }}
{{- if include "toolgate.keysFromAPI" (index . 0) }}
{{- $issuer = merge $issuer (dict "caFile" "/var/run/secrets/toolgate/ca.crt" "tokenFile" "/var/run/secrets/toolgate/api-token") }}
{{- end }}
{{- $defaults := dict "identity" (dict "issuers" (list $issuer)) }}
{{- $intercept := dict "caOutFile" "/var/run/toolgate/ca/ca.pem" "bundleOutFile" "/var/run/toolgate/ca/ca-bundle.pem" }}
{{- if not (dig "intercept" "caCertFile" "" $given) }}{{- $_ := set $intercept "caStateDir" "/var/lib/toolgate-ca" }}{{- end }}
{{- with $v.sidecar.ca.extra }}{{- $_ := set $intercept "extraCAs" . }}{{- end }}
{{- $fixed := dict
  "apiVersion" "toolgate/v1"
  "kind" "Sidecar"
  "listeners" (list (dict "name" "explicit-1" "kind" "explicit" "address" "127.0.0.1:15001" "tool" $tool "tokenFile" "/var/run/secrets/toolgate/token"))
  "admin" (dict "address" (ternary "[::]:15020" "0.0.0.0:15020" $v.sidecar.ipv6))
  "intercept" $intercept
}}
{{- mergeOverwrite $defaults $given $fixed | toYaml }}
---
{{ index . 2 | trim }}
{{- end }}

{{- /* Variables of a tool's container, as a CEL list. */}}
{{- define "toolgate.policy.env" -}}
{{- $bundle := "/var/run/toolgate/ca/ca-bundle.pem" }}
{{- $env := list }}
{{- range list "SSL_CERT_FILE" "REQUESTS_CA_BUNDLE" "CURL_CA_BUNDLE" "NODE_EXTRA_CA_CERTS" "GIT_SSL_CAINFO" "AWS_CA_BUNDLE" "PIP_CERT" "CARGO_HTTP_CAINFO" "DENO_CERT" "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" "HTTPLIB2_CA_CERTS" "npm_config_cafile" }}
{{- $env = append $env (dict "name" . "value" $bundle) }}
{{- end }}
{{- if .Values.sidecar.proxyVariables.enabled }}
{{- range list "HTTP_PROXY" "http_proxy" "HTTPS_PROXY" "https_proxy" "ALL_PROXY" "all_proxy" }}
{{- $env = append $env (dict "name" . "value" "http://127.0.0.1:15001") }}
{{- end }}
{{- $none := concat (list "localhost" "127.0.0.1" "::1" "$(KUBERNETES_SERVICE_HOST)") .Values.sidecar.proxyVariables.noProxy | join "," }}
{{- $env = concat $env (list (dict "name" "NO_PROXY" "value" $none) (dict "name" "no_proxy" "value" $none) (dict "name" "NODE_USE_ENV_PROXY" "value" "1")) }}
{{- end }}
{{- toJson $env }}
{{- end }}

{{- /* The config of a policy-injected sidecar: what the injector would make of one tool in explicit mode. Call with (list . name text). */}}
{{- define "toolgate.policy.config" -}}
{{- $root := index . 0 }}{{- $v := $root.Values }}
{{- $base := dict
  "apiVersion" "toolgate/v1"
  "kind" "Sidecar"
  "listeners" (list (dict "name" (index . 1) "kind" "explicit" "address" "127.0.0.1:15001" "tool" (index . 1) "tokenFile" "/var/run/secrets/toolgate/token"))
  "admin" (dict "address" ":15020")
  "identity" (dict "issuers" (list (dict
    "issuer" $v.cluster.issuer "jwksURL" $v.cluster.jwksURL "audiences" (list $v.sidecar.tokenAudience) "caFile" "/var/run/secrets/toolgate/ca.crt")))
}}
{{- mergeOverwrite $base (deepCopy $v.sidecar.config) | toYaml }}
---
{{ index . 2 | trim }}
{{- end }}

{{- /* Variables of a tool's container, as a CEL list. */}}
{{- define "toolgate.policy.env" -}}
{{- $bundle := "/var/run/toolgate/ca/ca-bundle.pem" }}
{{- $env := list (dict "name" "NODE_EXTRA_CA_CERTS" "value" "/var/run/toolgate/ca/ca.pem") }}
{{- range list "SSL_CERT_FILE" "REQUESTS_CA_BUNDLE" "CURL_CA_BUNDLE" "GIT_SSL_CAINFO" "AWS_CA_BUNDLE" "PIP_CERT" "CARGO_HTTP_CAINFO" "DENO_CERT" "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" "HTTPLIB2_CA_CERTS" "npm_config_cafile" }}
{{- $env = append $env (dict "name" . "value" $bundle) }}
{{- end }}
{{- if .Values.sidecar.proxyVariables.enabled }}
{{- range list "HTTP_PROXY" "HTTPS_PROXY" "ALL_PROXY" "http_proxy" "https_proxy" "all_proxy" }}
{{- $env = append $env (dict "name" . "value" "http://127.0.0.1:15001") }}
{{- end }}
{{- $none := concat (list "localhost" "127.0.0.1" "::1" "$(KUBERNETES_SERVICE_HOST)") .Values.sidecar.proxyVariables.noProxy | join "," }}
{{- $env = concat $env (list (dict "name" "NO_PROXY" "value" $none) (dict "name" "no_proxy" "value" $none) (dict "name" "NODE_USE_ENV_PROXY" "value" "1")) }}
{{- end }}
{{- toJson $env }}
{{- end }}

{{- define "toolgate.killSwitch.args" -}}
{{- $k := .Values.killSwitch -}}
- serve
- --dir=/var/lib/killswitch
- --listen=:15030
- --tls-cert=/etc/killswitch/tls/tls.crt
- --tls-key=/etc/killswitch/tls/tls.key
- --signing-key=/etc/killswitch/key/signing-key.pem
{{- if $k.nats.external }}
- --nats={{ join "," $k.nats.external }}
- --nats-credentials=/etc/killswitch/nats/control.creds
- --replicas={{ $k.nats.copies }}
{{- if $k.nats.caSecret }}
- --nats-ca-file=/etc/killswitch/nats-ca/ca.crt
{{- end }}
{{- else }}
- --nats-listen=:4222
- --nats-tls-cert=/etc/killswitch/tls/tls.crt
- --nats-tls-key=/etc/killswitch/tls/tls.key
{{- end }}
{{- if not $k.nats.external }}
- --sidecar-issuer={{ .Values.cluster.issuer }}
- --sidecar-audience={{ $k.audience }}
- --sidecar-jwks-url={{ .Values.cluster.jwksURL }}
{{- if include "toolgate.keysFromAPI" . }}
- --sidecar-issuer-ca-file=/var/run/secrets/toolgate/ca.crt
- --sidecar-issuer-token-file=/var/run/secrets/toolgate/token
{{- end }}
{{- end }}
{{- if or $k.tokensSecret (not $k.oidc.issuer) }}
- --tokens=/etc/killswitch/tokens/tokens
{{- end }}
{{- with $k.secondPerson }}
- --second-person={{ join "," . }}
{{- end }}
{{- if $k.oidc.issuer }}
{{- include "toolgate.killSwitch.oidc" $k.oidc | nindent 0 }}
{{- end }}
{{- end }}

{{- define "toolgate.killSwitch.oidc" -}}
- --oidc-issuer={{ .issuer }}
- --oidc-client-id={{ required "killSwitch.oidc.clientID is needed with killSwitch.oidc.issuer" .clientID }}
- --oidc-scopes={{ join "," .scopes }}
- --oidc-roles-claim={{ .rolesClaim }}
- --oidc-name-claim={{ .nameClaim }}
{{- if .url }}
- --url={{ .url }}
{{- end }}
{{- if .clientSecret }}
- --oidc-client-secret-file=/etc/killswitch/oidc/client-secret
{{- end }}
{{- if .audience }}
- --oidc-audience={{ .audience }}
{{- end }}
{{- range .roleMap }}
- {{ printf "--role-map=%s" . | quote }}
{{- end }}
{{- end }}

{{- /* The Secrets that it reads: name of the volume, name of the Secret. */}}
{{- define "toolgate.killSwitch.secrets" -}}
{{- $k := .Values.killSwitch -}}
tls: {{ include "toolgate.killSwitch.tlsSecret" . }}
key: {{ include "toolgate.killSwitch.keySecret" . }}
{{- if $k.tokensSecret }}
tokens: {{ $k.tokensSecret }}
{{- else if include "toolgate.killSwitch.admin" . }}
tokens: {{ include "toolgate.fullname" . }}-killswitch-admin
{{- end }}
{{- if $k.oidc.clientSecret }}
oidc: {{ $k.oidc.clientSecret }}
{{- end }}
{{- if $k.nats.external }}
nats: {{ required "killSwitch.nats.credentialsSecret is needed with killSwitch.nats.external" $k.nats.credentialsSecret }}
{{- if $k.nats.caSecret }}
nats-ca: {{ $k.nats.caSecret }}
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.killSwitch.pod" -}}
{{- $name := printf "%s-killswitch" (include "toolgate.fullname" .) -}}
metadata:
  labels:
    {{- include "toolgate.labels" (list . "killswitch") | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: killswitch
    {{- with .Values.killSwitch.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ $name }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "toolgate.podSecurity" . | nindent 4 }}
    # A volume of many files is not walked through at every start.
    fsGroupChangePolicy: OnRootMismatch
  containers:
    - name: killswitch
      image: {{ include "toolgate.image" (list . .Values.killSwitch.image) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        {{- include "toolgate.killSwitch.args" . | nindent 8 }}
      env:
        - name: TOOLGATE_MEMORY_LIMIT
          valueFrom:
            resourceFieldRef: {resource: limits.memory}
      ports:
        - {name: api, containerPort: 15030, protocol: TCP}
        {{- if not .Values.killSwitch.nats.external }}
        - {name: nats, containerPort: 4222, protocol: TCP}
        {{- end }}
      startupProbe:
        httpGet: {path: /healthz, port: api, scheme: HTTPS}
        periodSeconds: 1
        failureThreshold: 120
      readinessProbe:
        httpGet: {path: /readyz, port: api, scheme: HTTPS}
        periodSeconds: 5
        failureThreshold: 2
      livenessProbe:
        httpGet: {path: /healthz, port: api, scheme: HTTPS}
        periodSeconds: 10
        failureThreshold: 6
      resources:
        {{- toYaml .Values.killSwitch.resources | nindent 8 }}
      securityContext:
        {{- include "toolgate.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: data, mountPath: /var/lib/killswitch}
        {{- range $volume, $_ := include "toolgate.killSwitch.secrets" . | fromYaml }}
        - {name: {{ $volume }}, mountPath: /etc/killswitch/{{ $volume }}, readOnly: true}
        {{- end }}
        {{- include "toolgate.killSwitch.issuerMounts" . | nindent 8 }}
        {{- if include "toolgate.killSwitch.nobody" . }}
        - {name: tokens, mountPath: /etc/killswitch/tokens, readOnly: true}
        {{- end }}
  volumes:
    {{- range $volume, $secret := include "toolgate.killSwitch.secrets" . | fromYaml }}
    - name: {{ $volume }}
      {{- if eq $volume "tokens" }}
      # Not the token itself, which may stand beside its hash.
      secret: {secretName: {{ $secret }}, defaultMode: 0440, items: [{key: tokens, path: tokens}]}
      {{- else }}
      secret: {secretName: {{ $secret }}, defaultMode: 0440}
      {{- end }}
    {{- end }}
    {{- include "toolgate.killSwitch.issuerVolumes" . | nindent 4 }}
    {{- if include "toolgate.killSwitch.nobody" . }}
    - name: tokens
      configMap: {name: {{ $name }}-tokens}
    {{- end }}
    {{- if .Values.killSwitch.nats.external }}
    - name: data
      emptyDir: {sizeLimit: 64Mi}
    {{- end }}
  {{- with include "toolgate.placement" .Values.killSwitch }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* The cluster's own issuer: its root, and a token to ask for its keys with. */}}
{{- define "toolgate.killSwitch.issuerMounts" -}}
- {name: issuer, mountPath: /var/run/secrets/toolgate, readOnly: true}
{{- end }}
{{- define "toolgate.killSwitch.issuerVolumes" -}}
- name: issuer
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}

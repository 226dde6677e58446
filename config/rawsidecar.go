package config

import (
	"time"

	"github.com/toolgate/toolgate/egress"
	"github.com/toolgate/toolgate/identity"
)

// rawConfig is a sidecar's config as written, unchecked beyond its types.
type rawConfig struct {
	APIVersion field[apiVersion]           `key:"apiVersion" is:"required" doc:"Version of this format."`
	Kind       field[kindSidecar]          `key:"kind" is:"required" doc:"Kind of this file."`
	Mode       field[rawMode]              `key:"mode" default:"enforce" doc:"report decides and records, and lets pass what the egress policy alone would deny."`
	Listeners  field[[]field[rawListener]] `key:"listeners" is:"required,nonempty" doc:"Proxy ports."`
	Fence      field[rawFence]             `key:"fence" doc:"The rules around the pod's network that keep tools in."`
	Gateway    field[rawGateway]           `key:"gateway" doc:"Which workloads may come to a listener of kind gateway."`
	Admin      field[rawAdmin]             `key:"admin" doc:"Port for /metrics, /healthz and /readyz. Missing: none."`
	Manifests  field[[]field[string]]      `key:"manifests" is:"required,nonempty" doc:"Manifest files, as glob patterns relative to this file's folder."`
	Identity   field[rawIdentity]          `key:"identity" doc:"Whose tokens are believed."`
	Broker     field[rawBroker]            `key:"broker" doc:"Which credential goes to which target."`
	Egress     field[rawEgress]            `key:"egress" doc:"What holds for the network use of every tool."`
	Intercept  field[rawIntercept]         `key:"intercept" doc:"How TLS is terminated where a call must be seen."`
	Denials    field[rawDenials]           `key:"denials" doc:"How refusals are told."`
	KillSwitch field[rawKillSwitch]        `key:"killSwitch" doc:"Where revocations come from."`
	Audit      field[rawAudit]             `key:"audit" doc:"Where the record of each call goes."`
	Tracing    field[rawTracing]           `key:"tracing" doc:"Where the traces of calls go. docs/tracing.md. Missing: nowhere."`
	Log        field[rawLog]               `key:"log" doc:"What the sidecar prints about itself on stderr."`
	Limits     field[rawLimits]            `key:"limits" doc:"What one sidecar can be made to hold or wait for."`
}

type rawListener struct {
	Name      field[name]          `key:"name" is:"required" doc:"Name of the listener, unique."`
	Kind      field[listenerKind]  `key:"kind" default:"explicit" doc:"explicit is an HTTP proxy. transparent takes connections that netfilter redirects to it. dns answers queries for the names that the tool may reach, and asks nobody. gateway takes the tunnels of sidecars, over TLS."`
	Address   field[string]        `key:"address" is:"required" doc:"IP address and port to listen on; port 0 lets the system choose."`
	Tool      field[name]          `key:"tool" doc:"The one tool of this listener. Either this or tools."`
	Tools     field[[]field[name]] `key:"tools" is:"nonempty" doc:"Tools of this listener, chosen by the user name of Proxy-Authorization."`
	TokenFile field[string]        `key:"tokenFile" is:"blank" doc:"File with the caller's token for clients that send none."`
	TLS       field[rawServerTLS]  `key:"tls" doc:"Certificate of a gateway, which needs one."`
}

type rawServerTLS struct {
	CertFile field[string] `key:"certFile" is:"required" doc:"PEM file with the certificate and those between it and its root; re-read when it changes."`
	KeyFile  field[string] `key:"keyFile" is:"required" doc:"PEM file with its key; re-read when it changes."`
}

type rawGateway struct {
	ClientCAFile field[string]               `key:"clientCAFile" is:"blank" doc:"PEM file of the roots of workloads' certificates. Empty: no certificate is accepted."`
	Tokens       field[rawIssuer]            `key:"tokens" doc:"Issuer of workloads' tokens, for those without a certificate. The audience must be one of the gateway's own. Missing: no token is accepted."`
	Workloads    field[[]field[rawWorkload]] `key:"workloads" doc:"Who may speak for which tools. At least one beside a listener of kind gateway."`
}

type rawWorkload struct {
	IDs     field[[]field[identity.WorkloadPattern]] `key:"ids" is:"required,nonempty" doc:"SPIFFE IDs, subjects of tokens, or dns: with a certificate's name. * stands for one part between slashes or colons, {tenant} for a part that must be the caller's tenant."`
	Tools   field[[]field[name]]                     `key:"tools" is:"required,nonempty" doc:"Tools that they may speak for."`
	Tenants field[[]field[string]]                   `key:"tenants" is:"nonempty" doc:"Tenants of the callers whom they may speak for. Missing: any that {tenant} does not rule out."`
}

type rawFence struct {
	Rules     field[fenceRules] `key:"rules" doc:"Whose they are. netinit: sidecar netinit's; the sidecar tests that they are in force, and denies every call while they are not. external: somebody else's, which it cannot test. Missing: netinit if a listener is transparent, else none are expected."`
	ProbePort field[int]        `key:"probePort" default:"15091" min:"1" max:"65535" doc:"Port of the loopback addresses by which the sidecar tests the rules of netinit."`
}

type rawAdmin struct {
	Address field[string] `key:"address" is:"required" doc:"IP address and port to listen on."`
}

type rawIdentity struct {
	Required          field[bool]               `key:"required" default:"true" doc:"Refuse calls without a verified caller."`
	Issuers           field[[]field[rawIssuer]] `key:"issuers" doc:"Token issuers. At least one while identity is required."`
	WorkloadTokenFile field[string]             `key:"workloadTokenFile" is:"blank" doc:"File with this workload's own token, the actor_token of exchanges."`
}

type rawIssuer struct {
	Issuer            field[string]             `key:"issuer" is:"required" doc:"Exact iss of the tokens; keys are found by OpenID discovery below it. https, or http on a loopback address."`
	JWKSURL           field[string]             `key:"jwksURL" doc:"URL of the key set. Set: no discovery."`
	Preset            field[preset]             `key:"preset" doc:"Kind of issuer, which fills in algorithms, types, require and claims; what stands here counts more. docs/identity.md has the table. Missing: none."`
	Audiences         field[[]field[string]]    `key:"audiences" is:"required,nonempty" doc:"Audiences of which a token must carry one."`
	Algorithms        field[[]field[algorithm]] `key:"algorithms" is:"nonempty" doc:"Signature algorithms. Missing: RS256, ES256, EdDSA."`
	Types             field[[]field[tokenType]] `key:"types" is:"nonempty" doc:"Allowed typ headers. Missing: jwt, at+jwt, or none given."`
	AuthorizedParties field[[]field[string]]    `key:"authorizedParties" is:"nonempty" doc:"Allowed azp values, one of which a token must have. Missing: azp is not judged."`
	Leeway            field[time.Duration]      `key:"leeway" default:"30s" min:"1s" max:"60s" doc:"Clock skew allowed for exp, nbf and iat."`
	MaxLifetime       field[time.Duration]      `key:"maxLifetime" min:"1s" max:"8760h" doc:"Longest lifetime (exp less iat) of a token. Missing: no limit."`
	Require           field[[]field[string]]    `key:"require" doc:"Claims that a token must carry besides sub, aud and exp; a.b walks into objects."`
	Match             field[[]field[rawMatch]]  `key:"match" doc:"Claims that must have one of certain values."`
	Replay            field[replayMode]         `key:"replay" default:"off" doc:"How often a token may be used. once: for one call. bind: by the first workload that used it. Both need maxLifetime, and a claims.tokenID in each token."`
	CAFile            field[string]             `key:"caFile" is:"blank" doc:"PEM file of the roots for this issuer, in place of the system's."`
	TokenFile         field[string]             `key:"tokenFile" is:"blank" doc:"File with a bearer token for discovery and keys, for issuers that show keys only to whom they know; re-read when it changes. It is sent to the origin of jwksURL, or else of issuer, and to no other."`
	Introspection     field[rawIntrospection]   `key:"introspection" doc:"Where the issuer tells about its opaque tokens (RFC 7662). Missing: only JWTs are accepted. One issuer may have it."`
	Claims            field[rawClaims]          `key:"claims" doc:"Claims that fill the caller; of several names the first present wins, and a.b walks into objects. An empty list: none."`
}

type rawIntrospection struct {
	URL        field[string]        `key:"url" is:"required" doc:"Introspection endpoint. https, or http on a loopback address."`
	ClientAuth field[rawClientAuth] `key:"clientAuth" is:"required" doc:"How the sidecar authenticates to the endpoint: client_secret_basic, client_secret_post, private_key_jwt or workload_token."`
	CAFile     field[string]        `key:"caFile" is:"blank" doc:"PEM file of the roots for url, in place of the system's."`
	Timeout    field[time.Duration] `key:"timeout" default:"5s" min:"1ms" max:"30s" doc:"Timeout of one request."`
}

type rawMatch struct {
	Claim  field[string]          `key:"claim" is:"required" doc:"The claim, a string; a.b walks into objects."`
	Values field[[]field[string]] `key:"values" is:"required,nonempty" doc:"Its values, exactly."`
}

type rawClaims struct {
	Subject field[names] `key:"subject" is:"nonempty" default:"sub" doc:"On whose behalf."`
	Tenant  field[names] `key:"tenant" default:"tenant,tenant_id,tid,org_id" doc:"Tenant."`
	Agent   field[names] `key:"agent" default:"agent_id,act.sub,azp,client_id" doc:"Who acts."`
	Task    field[names] `key:"task" default:"task_id" doc:"Task."`
	Run     field[names] `key:"run" default:"run_id,txn,sid" doc:"Run."`
	Scopes  field[names] `key:"scopes" default:"scope,scp" doc:"Scopes."`
	Roles   field[names] `key:"roles" default:"roles" doc:"Roles."`
	TokenID field[names] `key:"tokenID" is:"nonempty" default:"jti" doc:"What tells a token from all others of its issuer."`
}

type rawBroker struct {
	Bindings field[[]field[rawBinding]] `key:"bindings" doc:"Bindings. A target with a binding is always intercepted and never reached without its credential."`
}

type rawBinding struct {
	Name              field[name]                    `key:"name" is:"required" doc:"Name of the binding, unique."`
	Tools             field[[]field[name]]           `key:"tools" is:"required,nonempty" doc:"Tools that use it."`
	Targets           field[[]field[string]]         `key:"targets" is:"required,nonempty" doc:"Hosts with optional port (443 when missing) that it is for; exact, and allowed by each tool's manifest."`
	TokenExchange     field[rawTokenExchange]        `key:"tokenExchange" doc:"A token from a token endpoint (RFC 8693). A binding has exactly one kind of credential."`
	ClientCredentials field[rawClientCredentials]    `key:"clientCredentials" doc:"A token for the sidecar itself from a token endpoint (RFC 6749, section 4.4)."`
	Static            field[rawStatic]               `key:"static" doc:"A secret from a file."`
	Placeholders      field[[]field[rawPlaceholder]] `key:"placeholders" is:"nonempty" doc:"Texts that the tool sends in the places of secrets from files, and where they are replaced."`
	GitHubApp         field[rawGitHubApp]            `key:"githubApp" doc:"An installation access token of a GitHub App."`
	Vault             field[rawVault]                `key:"vault" doc:"A secret from HashiCorp Vault or OpenBao."`
	AWS               field[rawAWS]                  `key:"aws" doc:"A session of a role, with which the tool's requests to AWS are signed anew."`
	GCP               field[rawGCP]                  `key:"gcp" doc:"An access token of Google Cloud by workload identity federation."`
	IDJAG             field[rawIDJAG]                `key:"idJAG" doc:"A token for a grant that the caller's identity provider gives (ID-JAG)."`
	MTLS              field[rawMTLS]                 `key:"mtls" doc:"A client certificate for the targets; alone, or beside another kind of credential."`
}

type rawTokenExchange struct {
	TokenURL           field[string]                `key:"tokenURL" is:"required" doc:"Token endpoint. https, or http on a loopback address."`
	RevocationURL      field[string]                `key:"revocationURL" doc:"Revocation endpoint (RFC 7009), where tokens that the kill switch covers are revoked. https, or http on a loopback address. Missing: they end by themselves."`
	Mode               field[exchangeMode]          `key:"mode" default:"delegation" doc:"delegation: the token says that the workload acts for the caller. impersonation: no actor is sent, and the token is as the caller's own."`
	Audience           field[string]                `key:"audience" doc:"Audience to ask for, and that a JWT must hold. At least one of audience and resource, unless target is scope."`
	Resource           field[string]                `key:"resource" doc:"Resource to ask for (RFC 8707), an absolute URI without fragment; a JWT must hold it or audience."`
	Target             field[targetBy]              `key:"target" doc:"Which parameters tell the issuer for whom the token is: audience, resource, both, or scope, which sends neither and needs scopes. Missing: whichever is set."`
	Scopes             field[[]field[scope]]        `key:"scopes" doc:"Scopes to ask for. Missing or empty: the manifest's requiredScopes."`
	ClientAuth         field[rawClientAuth]         `key:"clientAuth" is:"required" doc:"How the sidecar authenticates to the endpoint."`
	SubjectTokenType   field[string]                `key:"subjectTokenType" is:"blank" doc:"URN of the caller's token type. Missing: urn:ietf:params:oauth:token-type:jwt."`
	ActorTokenType     field[string]                `key:"actorTokenType" is:"blank" doc:"URN of the workload token's type. Missing: urn:ietf:params:oauth:token-type:jwt."`
	ActorTokenFile     field[string]                `key:"actorTokenFile" is:"blank" doc:"File with the actor_token, which a delegation needs. Missing: identity.workloadTokenFile."`
	GrantType          field[string]                `key:"grantType" is:"blank" doc:"URN of the grant, for issuers with one of their own. Missing: urn:ietf:params:oauth:grant-type:token-exchange."`
	RequestedTokenType field[string]                `key:"requestedTokenType" is:"blank" doc:"URN of the token to ask for, and the only one taken. Missing: urn:ietf:params:oauth:token-type:access_token, and a JWT is taken as well."`
	Parameters         field[[]field[rawParameter]] `key:"parameters" doc:"More parameters of the form, for issuers that want them."`
	CAFile             field[string]                `key:"caFile" is:"blank" doc:"PEM file of the roots for tokenURL, in place of the system's."`
	DPoP               field[bool]                  `key:"dpop" default:"false" doc:"Ask for a token that is bound to a key of the caller's, and prove the key with each request (RFC 9449)."`
	Timeout            field[time.Duration]         `key:"timeout" default:"10s" min:"1ms" max:"60s" doc:"Timeout of one attempt."`
	MaxTTL             field[time.Duration]         `key:"maxTTL" default:"15m" min:"1s" max:"24h" doc:"Longest time that a token is kept."`
}

type rawClientCredentials struct {
	TokenURL      field[string]                `key:"tokenURL" is:"required" doc:"Token endpoint. https, or http on a loopback address."`
	RevocationURL field[string]                `key:"revocationURL" doc:"Revocation endpoint (RFC 7009). Missing: tokens end by themselves."`
	Audience      field[string]                `key:"audience" doc:"Audience to ask for, and that a JWT must hold. At least one of audience and resource, unless target is scope."`
	Resource      field[string]                `key:"resource" doc:"Resource to ask for (RFC 8707), an absolute URI without fragment; a JWT must hold it or audience."`
	Target        field[targetBy]              `key:"target" doc:"Which parameters tell the issuer for whom the token is: audience, resource, both, or scope, which sends neither and needs scopes. Missing: whichever is set."`
	Scopes        field[[]field[scope]]        `key:"scopes" doc:"Scopes to ask for. Missing or empty: the manifest's requiredScopes."`
	Parameters    field[[]field[rawParameter]] `key:"parameters" doc:"More parameters of the form, for issuers that want them."`
	ClientAuth    field[rawClientAuth]         `key:"clientAuth" is:"required" doc:"How the sidecar authenticates to the endpoint; not none."`
	CAFile        field[string]                `key:"caFile" is:"blank" doc:"PEM file of the roots for tokenURL, in place of the system's."`
	DPoP          field[bool]                  `key:"dpop" default:"false" doc:"Ask for a token that is bound to a key of the caller's, and prove the key with each request (RFC 9449)."`
	Timeout       field[time.Duration]         `key:"timeout" default:"10s" min:"1ms" max:"60s" doc:"Timeout of one attempt."`
	MaxTTL        field[time.Duration]         `key:"maxTTL" default:"15m" min:"1s" max:"24h" doc:"Longest time that a token is kept."`
}

type rawParameter struct {
	Name  field[parameterName] `key:"name" is:"required" doc:"Name of the parameter; none that has a setting of its own."`
	Value field[string]        `key:"value" is:"required" doc:"Its value, which is no secret."`
}

type rawClientAuth struct {
	Method     field[authMethod] `key:"method" is:"required" doc:"Authentication method (RFC 7591 names)."`
	ClientID   field[string]     `key:"clientID" doc:"Client id. Needed unless the method is none or workload_token."`
	SecretFile field[string]     `key:"secretFile" doc:"File with the client secret, for client_secret_basic and client_secret_post."`
	KeyFile    field[string]     `key:"keyFile" doc:"PEM file with the private key, for private_key_jwt and tls_client_auth."`
	CertFile   field[string]     `key:"certFile" doc:"PEM file with the client certificate, for tls_client_auth; re-read when it changes."`
	TokenFile  field[string]     `key:"tokenFile" doc:"File with the workload's token, for workload_token; re-read when it changes."`
	KeyID      field[string]     `key:"keyID" doc:"kid header of the assertion."`
	Audience   field[string]     `key:"audience" doc:"aud of the assertion. Missing: tokenURL."`
}

type rawStatic struct {
	File   field[string]        `key:"file" doc:"File with the secret; re-read when it changes. Needed unless basic is set."`
	Header field[headerName]    `key:"header" doc:"Header that carries it. Missing: Authorization."`
	Prefix field[string]        `key:"prefix" is:"blank" doc:"Text before the value, such as \"Bearer \"."`
	Query  field[parameterName] `key:"query" doc:"Query parameter that carries it, in place of a header."`
	Basic  field[rawBasic]      `key:"basic" doc:"User and password for Authorization: Basic (RFC 7617), in place of file."`
}

type rawBasic struct {
	Username     field[string] `key:"username" doc:"The user. This or usernameFile."`
	UsernameFile field[string] `key:"usernameFile" doc:"File with the user; re-read when it changes."`
	PasswordFile field[string] `key:"passwordFile" doc:"File with the password; re-read when it changes. Missing: no password, where the user of usernameFile is the secret."`
}

type rawPlaceholder struct {
	Text field[placeholderText]  `key:"text" is:"required" doc:"What the tool sends, such as TOOLGATE_ORDERS_KEY."`
	File field[string]           `key:"file" is:"required" doc:"File with the secret; re-read when it changes."`
	In   field[[]field[surface]] `key:"in" is:"required,nonempty" doc:"Where it is replaced: header:NAME, basic, path, query:NAME, json:$.path.to.field. Anywhere else it is refused."`
}

type rawGitHubApp struct {
	AppID          field[int]                       `key:"appID" min:"1" max:"9007199254740991" doc:"The App's number. This or clientID."`
	ClientID       field[string]                    `key:"clientID" doc:"The App's client id, which GitHub recommends."`
	InstallationID field[int]                       `key:"installationID" is:"required" min:"1" max:"9007199254740991" doc:"Number of the App's installation at an organisation or a user."`
	PrivateKeyFile field[string]                    `key:"privateKeyFile" is:"required" doc:"PEM file with the App's RSA key; re-read when it changes."`
	Repositories   field[[]field[repository]]       `key:"repositories" is:"required,nonempty" doc:"Repositories that the token is for, by name without the owner."`
	Permissions    field[[]field[gitHubPermission]] `key:"permissions" is:"required,nonempty" doc:"Permissions of the token, such as contents:read."`
	Scheme         field[gitHubScheme]              `key:"scheme" doc:"How the token is sent. Missing: basic where git's own protocol is served, which takes no bearer everywhere, and bearer elsewhere."`
	APIURL         field[string]                    `key:"apiURL" doc:"Base of the API; https://HOST/api/v3 of GitHub Enterprise Server. https, or http on a loopback address. Missing: https://api.github.com."`
	CAFile         field[string]                    `key:"caFile" is:"blank" doc:"PEM file of the roots for apiURL, in place of the system's."`
	Timeout        field[time.Duration]             `key:"timeout" default:"10s" min:"1ms" max:"60s" doc:"Timeout of one attempt."`
	MaxTTL         field[time.Duration]             `key:"maxTTL" default:"15m" min:"1s" max:"24h" doc:"Longest time that a token is kept."`
}

type rawVault struct {
	Address   field[string]         `key:"address" is:"required" doc:"Base of the server, such as https://vault.example:8200. https, or http on a loopback address."`
	Namespace field[string]         `key:"namespace" is:"blank" doc:"Namespace, such as team/agents. Empty: the root."`
	Auth      field[rawVaultAuth]   `key:"auth" is:"required" doc:"Login by a JWT."`
	Secret    field[rawVaultSecret] `key:"secret" is:"required" doc:"Which secret."`
	Header    field[headerName]     `key:"header" doc:"Header that carries field. Missing: Authorization."`
	Prefix    field[string]         `key:"prefix" is:"blank" doc:"Text before the value, such as \"Bearer \"."`
	Query     field[parameterName]  `key:"query" doc:"Query parameter that carries field, in place of a header."`
	CAFile    field[string]         `key:"caFile" is:"blank" doc:"PEM file of the roots for address, in place of the system's."`
	Timeout   field[time.Duration]  `key:"timeout" default:"10s" min:"1ms" max:"60s" doc:"Timeout of one attempt, login included."`
	MaxTTL    field[time.Duration]  `key:"maxTTL" min:"1s" max:"24h" doc:"Longest time that a secret is kept. Missing: 1m of KV; 1h of what has a lease, which is renewed meanwhile."`
}

type rawVaultAuth struct {
	Path      field[string]       `key:"path" default:"jwt" doc:"Where the JWT or Kubernetes method is mounted, below auth/."`
	Role      field[string]       `key:"role" is:"required" doc:"Role of the login."`
	Subject   field[vaultSubject] `key:"subject" default:"workload" doc:"Whose token the login is made with. caller: the caller's task token, so that Vault's policies tell callers apart."`
	TokenFile field[string]       `key:"tokenFile" is:"blank" doc:"File with the workload's token; re-read when it changes. Missing: identity.workloadTokenFile."`
}

type rawVaultSecret struct {
	Mount         field[string] `key:"mount" is:"blank" doc:"Where KV version 2 is mounted, such as secret. Missing: path is of an engine that makes secrets, such as database/creds/orders."`
	Path          field[string] `key:"path" is:"required" doc:"Path of the secret, below mount if that is set."`
	Field         field[string] `key:"field" doc:"Field with the value. This or passwordField."`
	UserField     field[string] `key:"userField" doc:"Field with the user for Authorization: Basic."`
	Username      field[string] `key:"username" doc:"The user itself, in place of userField."`
	PasswordField field[string] `key:"passwordField" doc:"Field with the password for Authorization: Basic."`
}

type rawEgress struct {
	Resolver         field[string]                `key:"resolver" is:"blank" doc:"DNS server, an IP address with optional port (53). Empty: the system's."`
	AllowPrivate     field[[]field[rawExemption]] `key:"allowPrivate" doc:"Private addresses that tools may reach. Loopback, link-local and metadata addresses need a prefix of one address."`
	ClusterCIDRs     field[[]field[cidr]]         `key:"clusterCIDRs" doc:"Pod, service and node ranges, denied even where they are public space."`
	UpstreamProxy    field[string]                `key:"upstreamProxy" is:"blank" doc:"HTTP proxy by which every upstream is reached, as http://host:port. Empty: upstreams are reached directly."`
	ProxyCredentials field[string]                `key:"upstreamProxyCredentialsFile" is:"blank" doc:"File with user:password for upstreamProxy; re-read when it changes."`
	Gateway          field[rawWay]                `key:"gateway" doc:"Egress gateway by which every upstream is reached, and which decides again. Not beside upstreamProxy."`
	UpstreamCAFile   field[string]                `key:"upstreamCAFile" is:"blank" doc:"PEM file of roots for upstreams, added to the system's."`
	AllowECH         field[bool]                  `key:"allowECH" default:"false" doc:"Relay TLS whose server name is encrypted (ECH). Browsers send something that looks like it always; what name it hides nobody can see."`
}

type rawWay struct {
	Address    field[string] `key:"address" is:"required" doc:"host:port of the gateway. A name is looked up as it is, without search domains."`
	ServerName field[string] `key:"serverName" is:"blank" doc:"Name that the gateway's certificate must have. Empty: the host of address."`
	CAFile     field[string] `key:"caFile" is:"blank" doc:"PEM file of the gateway's roots, in place of the system's."`
	CA         field[string] `key:"ca" is:"blank" doc:"The same roots as PEM text. Not beside caFile."`
	CertFile   field[string] `key:"certFile" is:"blank" doc:"PEM file with this workload's certificate, such as an X.509-SVID; re-read when it changes."`
	KeyFile    field[string] `key:"keyFile" is:"blank" doc:"PEM file with its key; re-read when it changes."`
	TokenFile  field[string] `key:"tokenFile" is:"blank" doc:"File with this workload's token for the gateway, in place of a certificate; re-read when it changes."`
}

type rawExemption struct {
	Prefix field[cidr]          `key:"prefix" is:"required" doc:"Network prefix."`
	Ports  field[[]field[port]] `key:"ports" is:"required,nonempty" doc:"Ports."`
	Tools  field[[]field[name]] `key:"tools" is:"required,nonempty" doc:"Tools; each needs allowPrivateNetwork: true in its manifest."`
}

type rawIntercept struct {
	CACertFile     field[string]                  `key:"caCertFile" is:"blank" doc:"PEM file with the CA's certificate. Empty: a CA is made at start."`
	CAKeyFile      field[string]                  `key:"caKeyFile" is:"blank" doc:"PEM file with the CA's key. Both or neither."`
	CAStateDir     field[string]                  `key:"caStateDir" is:"blank" doc:"Folder where the CA that is made at start is kept, key and certificate, so that a restart uses it again. One folder for each sidecar, for it alone. Empty: a restart makes another CA."`
	CAOutFile      field[string]                  `key:"caOutFile" is:"blank" doc:"Where the CA's certificate is written for tools to trust."`
	BundleOutFile  field[string]                  `key:"bundleOutFile" is:"blank" doc:"Where the public roots, the extra CAs and the CA's certificate are written, in one PEM file for tools whose one file of roots replaces the system's."`
	TrustStoreFile field[string]                  `key:"trustStoreFile" is:"blank" doc:"Where the same certificates are written as a PKCS #12 trust store for Java; its password is changeit."`
	ExtraCAFiles   field[[]field[string]]         `key:"extraCAFiles" doc:"PEM files of further CAs, such as a company's, that tools and the sidecar trust for upstreams."`
	ExtraCAs       field[string]                  `key:"extraCAs" is:"blank" doc:"The same as PEM text."`
	Targets        field[[]field[egress.Pattern]] `key:"targets" doc:"Hosts that are intercepted though no binding or rule asks for it."`
}

type rawDenials struct {
	InTunnel field[bool] `key:"inTunnel" default:"false" doc:"Answer refused TLS targets inside the tunnel, under our CA, so that clients can read why."`
}

type rawKillSwitch struct {
	File     field[string]        `key:"file" is:"blank" doc:"Revocations file."`
	NATS     field[rawNATS]       `key:"nats" doc:"Control plane. Beside a file either may revoke, and neither undoes the other."`
	MaxStale field[time.Duration] `key:"maxStale" default:"60s" min:"1s" max:"24h" doc:"How long a source may be silent before tools of staleRisks are denied."`
	Risks    field[[]field[risk]] `key:"staleRisks" doc:"Risks of tools that are denied then. Lower ones may be added; high and critical must stay. Missing: high and critical."`
	StateDir field[string]        `key:"stateDir" is:"blank" doc:"Folder for the control plane's last verified revocations, which rule after a restart. One folder for each sidecar."`
}

type rawNATS struct {
	Servers         field[[]field[string]] `key:"servers" doc:"URLs of the NATS servers: tls, wss, or nats and ws, which are for loopback addresses and for caFile. Missing or empty: no control plane."`
	PublicKey       field[names]           `key:"publicKey" is:"blank" doc:"Public key of the control plane, or several while one replaces another. This or publicKeyFile is needed with servers."`
	PublicKeyFile   field[string]          `key:"publicKeyFile" is:"blank" doc:"In place of publicKey: file with the key, or one a line, such as of a mounted Secret; re-read when it changes."`
	CredentialsFile field[string]          `key:"credentialsFile" is:"blank" doc:"NATS credentials file (.creds), read again at each connection."`
	CredentialsURL  field[string]          `key:"credentialsURL" is:"blank" doc:"In place of credentialsFile: URL of the control plane where credentials are had for the token in tokenFile, such as https://killswitch.example:15030/v1/sidecar-credentials."`
	TokenFile       field[string]          `key:"tokenFile" is:"blank" doc:"File with the token for credentialsURL, such as a projected service-account token; read again each time."`
	CAFile          field[string]          `key:"caFile" is:"blank" doc:"PEM file of the roots for the servers, in place of the system's, read again at each connection. Set: TLS always. They count for credentialsURL, too."`
	CA              field[string]          `key:"ca" is:"blank" doc:"In place of caFile: the PEM text itself."`
}

type rawAudit struct {
	Output     field[string]        `key:"output" default:"stdout" doc:"stdout, stderr, or a file."`
	Chain      field[bool]          `key:"chain" default:"true" doc:"Chain records by hash."`
	SigningKey field[string]        `key:"signingKeyFile" is:"blank" doc:"PEM file of an Ed25519 private key (PKCS #8) that signs checkpoints of the chain. Read at the start."`
	Checkpoint field[rawCheckpoint] `key:"checkpoint" doc:"How often the chain is signed; with signingKeyFile."`
	Rotate     field[rawRotate]     `key:"rotate" doc:"When the file is renamed and another begun."`
	Capture    field[rawCapture]    `key:"capture" doc:"Calls to write as HAR files, with stand-ins for what is secret or personal. docs/capture.md. Missing: none."`
	OTLP       field[rawAuditOTLP]  `key:"otlp" doc:"Collector that is sent a copy of each line. Missing: none."`
}

type rawAuditOTLP struct {
	Endpoint    field[string]       `key:"endpoint" is:"blank" doc:"URL of the OTLP collector, such as https://collector.example:4318. Empty: no copy is sent."`
	Protocol    field[otlpProtocol] `key:"protocol" default:"http/protobuf" doc:"As tracing.protocol."`
	CAFile      field[string]       `key:"caFile" is:"blank" doc:"As tracing.caFile."`
	HeadersFile field[string]       `key:"headersFile" is:"blank" doc:"As tracing.headersFile."`
	SpoolBytes  field[int]          `key:"spoolBytes" default:"16777216" min:"65536" max:"1073741824" doc:"Memory for lines that wait for the collector, where output is no file. A file holds them itself."`
}

type rawCapture struct {
	Dir          field[string]        `key:"dir" is:"required" doc:"Folder for the files, one for each tool and start. Made if it is not there. Read at the start, as the bounds are."`
	Tools        field[[]field[name]] `key:"tools" is:"required,nonempty" doc:"Tools whose intercepted and plain HTTP calls are captured."`
	MaxBodyBytes field[int]           `key:"maxBodyBytes" default:"65536" min:"0" max:"4194304" doc:"Bytes of a body that are kept; a longer one is left out, or an event stream cut."`
	MaxEntries   field[int]           `key:"maxEntries" default:"1000" min:"1" max:"100000" doc:"Calls in one file. A full file is left as it is."`
	MaxFileBytes field[int]           `key:"maxFileBytes" default:"16777216" min:"65536" max:"1073741824" doc:"Size of one file."`
}

type rawCheckpoint struct {
	Records  field[int]           `key:"records" default:"1000" min:"1" max:"1000000" doc:"Records between checkpoints."`
	Interval field[time.Duration] `key:"interval" default:"1m" min:"1s" max:"24h" doc:"Time between checkpoints while there are records."`
}

type rawRotate struct {
	MaxBytes field[int] `key:"maxBytes" min:"65536" max:"1099511627776" doc:"Size at which the file is renamed, with a number behind its name. Missing: never."`
	Keep     field[int] `key:"keep" default:"10" min:"1" max:"999999" doc:"Renamed files that are kept; older ones are deleted."`
}

type rawTracing struct {
	Endpoint     field[string]                  `key:"endpoint" is:"blank" doc:"URL of the OTLP collector, such as https://collector.example:4318. Empty: nothing is traced."`
	Protocol     field[otlpProtocol]            `key:"protocol" default:"http/protobuf" doc:"Protocol of the endpoint. Its usual port is 4318 for http/protobuf, 4317 for grpc."`
	CAFile       field[string]                  `key:"caFile" is:"blank" doc:"PEM file of the roots for the endpoint, in place of the system's; read again at each connection."`
	HeadersFile  field[string]                  `key:"headersFile" is:"blank" doc:"File with headers for the collector, one name: value a line, such as its API key; read again each time."`
	SampleRatio  field[float64]                 `key:"sampleRatio" default:"1" min:"0" max:"1" doc:"Share of the calls without a traceparent that are traced. A traceparent's own sampled flag counts more."`
	MaxPerSecond field[int]                     `key:"maxPerSecond" default:"100" min:"1" max:"100000" doc:"Traced calls of one tool a second, whatever asks for them."`
	Propagate    field[[]field[egress.Pattern]] `key:"propagate" doc:"Hosts of the organisation's own that are told the trace's and the call's id in traceparent. To others the tool's own header goes as it is."`
}

type rawLog struct {
	Level    field[logLevel]  `key:"level" default:"info" doc:"Least level that is printed."`
	Format   field[logFormat] `key:"format" default:"json" doc:"Format of a line."`
	Payloads field[bool]      `key:"payloads" default:"false" doc:"Print headers and body of each call's request and response, redacted."`
}

type rawLimits struct {
	MaxConnections field[int]           `key:"maxConnections" default:"8192" min:"1" max:"1000000" doc:"Client connections of one listener at once, tunnels not counted. One more is answered 503 and closed."`
	MaxTunnels     field[int]           `key:"maxTunnels" default:"4096" min:"1" max:"1000000" doc:"Open tunnels at once."`
	TunnelsPerTool field[int]           `key:"maxTunnelsPerTool" default:"3072" min:"1" max:"1000000" doc:"Open tunnels of one tool at once, so that one tool cannot take them all."`
	TenantTunnels  field[int]           `key:"maxTunnelsPerTenant" default:"2048" min:"1" max:"1000000" doc:"Open tunnels of one tenant at once, so that one tenant cannot take all of a tool's. Callers without a tenant are not counted."`
	TenantRequests field[int]           `key:"maxRequestsPerTenant" default:"4096" min:"1" max:"1000000" doc:"Requests of one tenant at once. Callers without a tenant are not counted."`
	MaxHeaderBytes field[int]           `key:"maxHeaderBytes" default:"65536" min:"1024" max:"1048576" doc:"Bytes of a request's or answer's headers."`
	HeaderTimeout  field[time.Duration] `key:"headerTimeout" default:"10s" min:"1ms" max:"10m" doc:"Time for a client to send its headers."`
	DialTimeout    field[time.Duration] `key:"dialTimeout" default:"10s" min:"1ms" max:"10m" doc:"Time to connect to an upstream, lookup included."`
	IdleTimeout    field[time.Duration] `key:"idleTimeout" default:"5m" min:"1ms" max:"24h" doc:"Time without a byte after which a connection is closed."`
	Drain          field[time.Duration] `key:"drain" default:"25s" min:"1ms" max:"10m" doc:"Time that running calls get when the sidecar stops."`
}

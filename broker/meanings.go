package broker

// meaning says in words what a Reason means: why, and what to do. One sentence each.
type meaning struct{ cause, remedy string }

var meanings = map[Reason]meaning{
	InvalidRequest:       {"The endpoint does not understand the request.", "See in its documentation which parameters it wants; `target`, `subjectTokenType` and `parameters` are where issuers differ."},
	InvalidClient:        {"The endpoint does not accept the sidecar as a client.", "Compare `clientAuth` with the client as it is registered: method, `clientID`, the key's id, the assertion's `audience`."},
	InvalidGrant:         {"The endpoint does not accept the task token or the actor token.", "See whether it trusts their issuers and audiences, and whether they are still good."},
	UnauthorizedClient:   {"The client may not use this grant.", "Allow the client token exchange, or the grant that the binding uses, at the issuer."},
	UnsupportedGrantType: {"The endpoint does not know the grant type.", "See whether `tokenURL` is its token endpoint and whether it does token exchange; set `grantType` if it has one of its own."},
	InvalidScope:         {"The scopes are not known there, or not granted to this client or caller.", "Compare `scopes`, or the manifest's `requiredScopes`, with what the issuer grants."},
	InvalidTarget:        {"The audience or resource is not known, or not allowed for this client.", "Compare `audience` and `resource` with the API as it is registered, and say with `target` which of them is to be sent."},
	Refused:              {"The endpoint refused with a 4xx of no known code.", "See the issuer's own log at this time; `tokenURL` may be wrong."},
	ServerError:          {"The endpoint answered 5xx.", "See the issuer's own state; the sidecar tries again by itself."},
	RateLimited:          {"The endpoint answered 429: it is asked too often.", "Raise the client's limit at the issuer, or let tokens live longer there."},
	Timeout:              {"The endpoint did not answer in time.", "See whether it can be reached from here and is not overloaded; raise `timeout` if it is slow by nature."},
	Unreachable:          {"There is no connection to the endpoint.", "See the name in `tokenURL`, its port, and what lies between; no proxy variable is used."},
	TLS:                  {"The endpoint's certificate or TLS is not acceptable, or it does not accept ours.", "Name its root in `caFile`, see the certificate's names and dates, and with `tls_client_auth` the client's own."},
	Overloaded:           {"Too many of our requests wait for the endpoint.", "See why it is slow; a tenant whose requests hang gets no more than its share."},
	BreakerOpen:          {"The endpoint has failed five times in a row and is left alone for a while.", "See the reasons before it in `toolgate_token_exchanges_total`; it is tried again by itself."},
	Cancelled:            {"A revocation or a reload came in between, or the caller left.", "Ask again, if no revocation covers the call."},
	BadAnswer:            {"The answer is no token response: its status, its JSON, a value in it or the token itself cannot be used.", "See whether `tokenURL` is the token endpoint and nothing between it and the sidecar answers in its place."},
	BadTokenType:         {"The `token_type` is not Bearer, or the `issued_token_type` is not what was asked for.", "Set `requestedTokenType` to what the issuer gives if an upstream may be shown that; a refresh token, an ID token or `N_A` may not."},
	WiderScope:           {"The issuer granted more scopes than were asked for.", "Have it narrow the token for this client, or ask for all of them in `scopes`."},
	NarrowerScope:        {"The issuer granted fewer scopes than were asked for.", "Grant the missing ones to this client and caller, or ask for less."},
	WrongAudience:        {"The token's `aud` is not what was asked for, or is missing.", "See whether the issuer heeds `audience` or `resource`, and set `target` to the one that it does."},
	WrongSubject:         {"The token's `sub` is not the caller's, or is missing.", "See whether the issuer maps subjects, and whether it exchanged the token or gave one of the client's own."},
	WrongActor:           {"The token's `act` is missing or does not name the workload.", "See whether the issuer heeds `actor_token`; for one that knows the caller only, say `mode: impersonation`."},
	Expired:              {"The token was over before it could be used.", "Compare the clocks of the issuer and of this machine."},
	BadExpiry:            {"`expires_in` is no number.", "Have the issuer send seconds as a number."},
	NoIdentity:           {"There is no verified caller.", "Call with a task token; no credential is given without one."},
	NoSubjectToken:       {"There is no task token to exchange.", "Call with a task token rather than by another proof of the caller."},
	SubjectExpired:       {"The task token is over.", "Call with one that still lives."},
	ActorNotAllowed:      {"`may_act` of the task token names another workload.", "Compare it with `sub` and `iss` of the actor token, and have the task token name this workload."},
	NotBound:             {"The binding is not for this tool.", "This is a mistake of the sidecar's own; please report it."},
	SecretUnreadable:     {"A secret, key or token file is missing, empty, or holds more than one line.", "See the files that the binding names, and who may read them."},
	Internal:             {"Something went wrong inside the sidecar.", "This is a mistake of its own; please report it."},
}

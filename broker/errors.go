package broker

import (
	"fmt"
	"time"
)

// Reason is why a credential could not be had; a closed set, safe to log and to count.
type Reason string

// What the token endpoint said (RFC 6749, section 5.2; RFC 8693, section 2.2.2; RFC 8707, section 2).
const (
	InvalidRequest       Reason = "invalid_request"
	InvalidClient        Reason = "invalid_client"
	InvalidGrant         Reason = "invalid_grant"
	UnauthorizedClient   Reason = "unauthorized_client"
	UnsupportedGrantType Reason = "unsupported_grant_type"
	InvalidScope         Reason = "invalid_scope"
	InvalidTarget        Reason = "invalid_target"
	Refused              Reason = "refused"      // any other 4xx
	ServerError          Reason = "server_error" // 5xx
	RateLimited          Reason = "rate_limited" // 429
)

// Why the token endpoint could not be asked.
const (
	Timeout     Reason = "timeout"
	Unreachable Reason = "unreachable"
	TLS         Reason = "tls"          // its certificate or its TLS is not acceptable
	Overloaded  Reason = "overloaded"   // too many requests of ours are waiting for it
	BreakerOpen Reason = "breaker_open" // it has failed several times in a row, and is left alone for a while
	Cancelled   Reason = "cancelled"    // ended from outside, for example by Broker.Drop
)

// What was wrong with its answer.
const (
	BadAnswer     Reason = "bad_answer"     // not the JSON of RFC 8693, section 2.2.1, or a value that cannot be a token
	BadTokenType  Reason = "bad_token_type" // a token_type or issued_token_type that cannot be used as a bearer token
	WiderScope    Reason = "wider_scope"    // more than was asked
	NarrowerScope Reason = "narrower_scope" // less than was asked
	WrongAudience Reason = "wrong_audience" // a JWT for somebody else's audience
	WrongSubject  Reason = "wrong_subject"  // a JWT for another subject than the caller
	WrongActor    Reason = "wrong_actor"    // a JWT whose act is missing or is not the workload
	Expired       Reason = "expired"        // over before it could be used
	BadExpiry     Reason = "bad_expires_in" // an expires_in that is no number
)

// What was wrong before anything was asked.
const (
	NoIdentity       Reason = "no_identity"       // the subject or the tool is empty
	NoSubjectToken   Reason = "no_subject_token"  // an exchange needs the caller's token
	SubjectExpired   Reason = "subject_expired"   // the caller's token is over
	ActorNotAllowed  Reason = "actor_not_allowed" // the caller's token names another may_act (RFC 8693, section 4.4)
	NotBound         Reason = "not_bound"         // the binding is not of this broker, or not for this tool
	SecretUnreadable Reason = "secret_unreadable" // a secret, key or token file
	Internal         Reason = "internal"
)

// What was wrong with the request that it was to be put on.
const (
	PlaceholderLeft Reason = "placeholder_left" // where it is not replaced
	PlaceholderPath Reason = "placeholder_path" // its value would make another path
	PlaceholderBody Reason = "placeholder_body" // a body in which it cannot be looked for
)

// What was wrong with a request that was to be signed anew.
const (
	NotSigned       Reason = "not_signed"       // it has no signature of its own that says for which service and region it is
	Presigned       Reason = "presigned"        // its URL holds a credential of the tool's own
	ChunkSigned     Reason = "chunk_signed"     // its body is signed in pieces
	UnsignedPayload Reason = "unsigned_payload" // its body comes in pieces that no signature may cover
	WrongService    Reason = "wrong_service"    // for a service that the binding does not list
	WrongRegion     Reason = "wrong_region"     // for a region that the binding does not list
	WrongHost       Reason = "wrong_host"       // for another service or region than its host is of
)

// advice is what whoever wrote the tool can do about a reason.
var advice = map[Reason]string{
	NotSigned:       "the tool must sign its request with Signature Version 4 in the Authorization header; any access key does",
	Presigned:       "a URL that holds a signature or a token is not passed on; let the tool make an ordinary request",
	ChunkSigned:     "a body signed chunk by chunk cannot be signed anew; turn chunked encoding off in the SDK (Java: chunkedEncodingEnabled(false))",
	UnsignedPayload: "the body comes in unsigned pieces, which the binding passes on only with unsignedPayload: true; or set request_checksum_calculation to when_required in the SDK",
	WrongService:    "the binding's services do not list the service that the tool signed for",
	WrongRegion:     "the binding's regions do not list the region that the tool signed for",
	WrongHost:       "the host is not one of the service and region that the tool signed for",
}

// Advice says what can be done about a reason that lies in the tool's request, without a full stop; empty for others.
func (r Reason) Advice() string { return advice[r] }

// phase says where a reason arises, for the text of errors, and whether a later try can help.
type phase struct {
	text      string
	temporary bool
}

const (
	exchanging = "token exchange failed: "
	preparing  = "no credential: "
	placingIt  = "the credential cannot be put on the request: "
)

var phases = map[Reason]phase{
	InvalidRequest: {exchanging, false}, InvalidClient: {exchanging, false}, InvalidGrant: {exchanging, false},
	UnauthorizedClient: {exchanging, false}, UnsupportedGrantType: {exchanging, false},
	InvalidScope: {exchanging, false}, InvalidTarget: {exchanging, false}, Refused: {exchanging, false},
	ServerError: {exchanging, true}, RateLimited: {exchanging, true},

	Timeout: {exchanging, true}, Unreachable: {exchanging, true}, TLS: {exchanging, true},
	Overloaded: {exchanging, true}, Cancelled: {exchanging, true}, BreakerOpen: {exchanging, true},

	BadAnswer: {exchanging, false}, BadTokenType: {exchanging, false}, WiderScope: {exchanging, false},
	NarrowerScope: {exchanging, false}, WrongAudience: {exchanging, false}, WrongSubject: {exchanging, false},
	WrongActor: {exchanging, false}, Expired: {exchanging, false}, BadExpiry: {exchanging, false},

	NoIdentity: {preparing, false}, NoSubjectToken: {preparing, false}, SubjectExpired: {preparing, false},
	ActorNotAllowed: {preparing, false}, NotBound: {preparing, false}, SecretUnreadable: {preparing, true},
	Internal: {preparing, false},

	PlaceholderLeft: {placingIt, false}, PlaceholderPath: {placingIt, false}, PlaceholderBody: {placingIt, false},
	NotSigned: {placingIt, false}, Presigned: {placingIt, false}, ChunkSigned: {placingIt, false}, UnsignedPayload: {placingIt, false},
	WrongService: {placingIt, false}, WrongRegion: {placingIt, false}, WrongHost: {placingIt, false},
}

// Error says which binding failed and why, and never what the secret or the endpoint's answer was.
type Error struct {
	Binding    string
	Reason     Reason
	Temporary  bool          // true: credential_unavailable, false: credential_denied
	RetryAfter time.Duration // when Temporary, as far as known
	Detail     string        // where placeholders are replaced; no secret
}

// Error names the binding and the reason, for example `binding "orders": token exchange failed: invalid_scope`.
func (e *Error) Error() string {
	text := phases[e.Reason].text
	if text == "" {
		text = preparing
	}
	return fmt.Sprintf("binding %q: %s%s", e.Binding, text, e.Reason)
}

func newError(binding string, r Reason) *Error {
	return &Error{Binding: binding, Reason: r, Temporary: phases[r].temporary}
}

// Negative caching is long enough to keep a looping agent from the endpoint and short enough for a person who has
// just repaired something.
const (
	negativeMin    = 5 * time.Second
	negativeDenied = 10 * time.Second
	negativeMax    = 30 * time.Second
)

// negativeFor returns how long e may be answered from memory; 0 for what is decided here, costs nothing to try again
// and says nothing about the endpoint.
func (e *Error) negativeFor() time.Duration {
	switch {
	case e.Reason == Cancelled || e.Reason == Overloaded || e.Reason == BreakerOpen || e.Reason == Internal || phases[e.Reason].text == preparing:
		return 0
	case e.Temporary:
		return min(max(e.RetryAfter, negativeMin), negativeMax)
	default:
		return negativeDenied
	}
}

// Package broker turns the identity of a call into a short-lived credential for one upstream, and puts it on the
// outgoing request. It holds bindings (which credential goes to which target for which tool), the cache of issued
// credentials, and one file per issuer.
//
// Limits: a credential's value leaves this package only on an outgoing request, through Credential.Apply; that of the
// operator's upstream proxy through BasicFile.AppendHeader. Whether a call is allowed is decided before, elsewhere. It
// never uses ambient credentials or proxy variables.
//
// It imports redact and nothing else of this module. Only config, proxy and cmd may import it.
package broker

// Package console is the kill switch's web page for people: what is stopped now, by whom and why, who has acknowledged, and
// one red button.
//
// Limits: a handler calls one method of central.Service with the principal of the session and renders what it returned; it
// decides nothing that the service would not refuse by itself. Every page works without JavaScript. Nothing is loaded from
// elsewhere. No GET changes state, and a POST is taken from this very origin alone.
//
// It imports central, api, login and ledger. Only cmd/killswitch may import it.
package console

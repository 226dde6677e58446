package proxy

import (
	"crypto/tls"
	"errors"
	"sync"

	"github.com/elazarl/goproxy"
)

var errPublishedCA = errors.New("goproxy's CA is published, and must sign nothing")

// dropPublishedCA takes from goproxy the CA that comes with it. Its key is in goproxy's source for everyone to read, and goproxy
// loads it when the program starts. Nothing here asks for it; after this nothing can.
var dropPublishedCA = sync.OnceFunc(func() {
	clear(goproxy.CA_KEY)
	goproxy.CA_KEY, goproxy.CA_CERT, goproxy.GoproxyCa = nil, nil, tls.Certificate{}
	refuse := func(string, *goproxy.ProxyCtx) (*tls.Config, error) { return nil, errPublishedCA }
	for _, a := range []*goproxy.ConnectAction{goproxy.OkConnect, goproxy.MitmConnect, goproxy.HTTPMitmConnect, goproxy.RejectConnect} {
		a.TLSConfig = refuse
	}
})

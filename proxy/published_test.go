package proxy

import (
	"bytes"
	"testing"

	"github.com/elazarl/goproxy"
)

// TestThePublishedCAIsGone once there is a router, key and all, from every place where goproxy keeps it.
func TestThePublishedCAIsGone(t *testing.T) {
	key := goproxy.CA_KEY // the bytes themselves; empty when another test has made a router
	newRouter()
	if len(bytes.Trim(key, "\x00")) != 0 || len(goproxy.CA_KEY) != 0 || len(goproxy.CA_CERT) != 0 {
		t.Error("the key's bytes are there")
	}
	if goproxy.GoproxyCa.PrivateKey != nil || len(goproxy.GoproxyCa.Certificate) != 0 || goproxy.GoproxyCa.Leaf != nil {
		t.Error("the CA is there")
	}
	for name, a := range map[string]*goproxy.ConnectAction{"OkConnect": goproxy.OkConnect, "MitmConnect": goproxy.MitmConnect,
		"HTTPMitmConnect": goproxy.HTTPMitmConnect, "RejectConnect": goproxy.RejectConnect} {
		if c, err := a.TLSConfig("host.test", &goproxy.ProxyCtx{Proxy: goproxy.NewProxyHttpServer()}); c != nil || err == nil {
			t.Errorf("%s signs", name)
		}
	}
}

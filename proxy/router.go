package proxy

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/elazarl/goproxy"
)

type callKey struct{}

// entry is the handler of one listener: it opens the record, lets goproxy tell a CONNECT from a plain request, and
// makes sure that the record is written.
type entry struct {
	proxy    *Proxy
	listener string
	router   *goproxy.ProxyHttpServer
}

func newEntry(p *Proxy, listener string) *entry {
	return &entry{proxy: p, listener: listener, router: newRouter()}
}

func (e *entry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard, _ := r.Context().Value(guardKey{}).(*guarded)
	guard.pass()
	kind := "request"
	if r.Method == http.MethodConnect {
		kind = "tunnel"
	}
	c := e.proxy.begin(e.listener, kind)
	defer c.finishUnlessHanded()
	defer c.contain()
	once := &onceWriter{ResponseWriter: w, call: c}
	e.router.ServeHTTP(once, r.WithContext(context.WithValue(r.Context(), callKey{}, once)))
}

// newRouter returns goproxy with nothing of its own left to do: every CONNECT is hijacked, every plain request is
// answered in the hook. Its own ways of reaching an upstream are shut, so that a request that slipped past the
// hooks would reach nobody (without handlers goproxy lets everything through, and takes a proxy from the environment).
func newRouter() *goproxy.ProxyHttpServer {
	dropPublishedCA()
	g := goproxy.NewProxyHttpServer()
	g.Tr = &http.Transport{DialContext: refuseDial, DisableKeepAlives: true}
	g.ConnectDial = nil
	g.Logger = silent{}
	g.NonproxyHandler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { servePlain(r) })
	g.OnRequest().HandleConnect(goproxy.FuncHttpsHandler(
		func(_ string, ctx *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
			return &goproxy.ConnectAction{Action: goproxy.ConnectHijack, Hijack: connectHook(ctx.Req)}, ""
		}))
	g.OnRequest().DoFunc(func(r *http.Request, _ *goproxy.ProxyCtx) (*http.Request, *http.Response) {
		servePlain(r)
		return r, &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody} // ignored: the call is answered
	})
	return g
}

func refuseDial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("goproxy must not dial")
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// connectHook decides a CONNECT, and dials where that is due, before the connection is taken from net/http.
func connectHook(r *http.Request) func(*http.Request, net.Conn, *goproxy.ProxyCtx) {
	w := r.Context().Value(callKey{}).(*onceWriter)
	next := w.call.open(connectAsk(r))
	return func(_ *http.Request, conn net.Conn, _ *goproxy.ProxyCtx) { next(conn, w.early()) }
}

func servePlain(r *http.Request) {
	w := r.Context().Value(callKey{}).(*onceWriter)
	w.call.serve(r.Context(), w.ResponseWriter, r, plainAsk(r))
	w.answered = true
}

// onceWriter lets the hook answer through the real writer and swallows what goproxy writes after it. It also keeps the
// bytes that a client sent on the heels of its CONNECT, which goproxy's hijack hook would lose.
type onceWriter struct {
	http.ResponseWriter
	call     *call
	answered bool
	dummy    http.Header
	buffered *bufio.Reader
}

func (w *onceWriter) Header() http.Header {
	if !w.answered {
		return w.ResponseWriter.Header()
	}
	if w.dummy == nil {
		w.dummy = http.Header{}
	}
	return w.dummy
}

func (w *onceWriter) WriteHeader(status int) {
	if !w.answered {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *onceWriter) Write(b []byte) (int, error) {
	if w.answered {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

func (w *onceWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		w.buffered = rw.Reader
	}
	return unguarded(conn), rw, err
}

// early returns a copy of what the client sent after its CONNECT and net/http had read already.
func (w *onceWriter) early() []byte {
	if w.buffered == nil || w.buffered.Buffered() == 0 {
		return nil
	}
	b, _ := w.buffered.Peek(w.buffered.Buffered())
	return append([]byte(nil), b...)
}

package proxy

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// crowd is a listener that bounds the connections its server holds. One more is told so and closed at once, so that a tool which
// opens connections without end does not use up the descriptors of all. A connection that has become a tunnel counts
// there and no longer here.
type crowd struct {
	net.Listener
	max   int64
	held  atomic.Int64
	turns atomic.Int64 // being told
}

const (
	crowded = "HTTP/1.1 503 Service Unavailable: overloaded\r\nContent-Type: application/problem+json\r\nContent-Length: 167\r\n" +
		"Toolgate-Denial: overloaded\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" +
		`{"code":"overloaded","title":"The sidecar is at its limit","status":503,"detail":"Too many connections.","retryable":true,"retry_after_ms":1000,"next_steps":["Wait."]}`
	maxTurns = 64 // that are told at a time; more are closed without a word
	turnTime = time.Second
)

// Accept returns the next connection that there is room for.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c.held.Add(1) <= c.max {
			return conn, nil
		}
		c.held.Add(-1)
		if c.turns.Add(1) > maxTurns {
			c.turns.Add(-1)
			reset(conn)
			continue
		}
		go func() {
			defer c.turns.Add(-1)
			turnAway(conn)
		}()
	}
}

// turnAway reads what the client has to say, so that the answer is not lost in a reset, and answers.
func turnAway(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(turnTime))
	_, _ = io.WriteString(conn, crowded)
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, conn, 16<<10)
	_ = conn.Close()
}

// note is the server's ConnState hook.
func (c *crowd) note(_ net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.held.Add(-1)
	}
}

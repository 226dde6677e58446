//go:build linux

package main

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
)

// relayHello is the first line of a relay: its ports for the upstream's.
type relayHello struct{ Plain, TLS, Metrics string }

// spliceMain relays bytes to the upstream's plain port and its TLS port, which are its arguments. It is what a blind tunnel cannot
// undercut: io.Copy between two TCP connections is splice(2).
func spliceMain(args []string) error {
	plain, err := relayTo(args[0])
	if err != nil {
		return err
	}
	secure, err := relayTo(args[1])
	if err != nil {
		return err
	}
	return relaysReady(relayHello{Plain: plain, TLS: secure})
}

func relayTo(target string) (string, error) {
	return serveConns(func(client net.Conn) {
		upstream, err := dialer.Dial("tcp4", target)
		if err != nil {
			client.Close()
			return
		}
		join(client, upstream)
	})
}

// floorMain terminates TLS and encrypts anew to the upstream's TLS port, its second argument, which it verifies by the CA in the
// third. It is what an interception cannot undercut: the two handshakes and the records, and no HTTP.
func floorMain(args []string) error {
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	roots, err := rootsOf(args[2])
	if err != nil {
		return err
	}
	server := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{alpnH1}}
	upstream := &tls.Config{RootCAs: roots, NextProtos: []string{alpnH1}, ServerName: "127.0.0.1"}
	addr, err := serveConns(func(client net.Conn) {
		conn, err := tls.DialWithDialer(&dialer, "tcp4", args[1], upstream)
		if err != nil {
			client.Close()
			return
		}
		join(tls.Server(client, server), conn)
	})
	if err != nil {
		return err
	}
	return relaysReady(relayHello{TLS: addr})
}

// serveConns serves connections on a free port, which it returns.
func serveConns(serve func(net.Conn)) (string, error) {
	addr, ln, err := listen()
	if err != nil {
		return "", err
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return addr, nil
}

type halfCloser interface{ CloseWrite() error }

// join copies both ways until both have ended.
func join(a, b net.Conn) {
	defer a.Close()
	defer b.Close()
	var both sync.WaitGroup
	for _, way := range [2][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].(halfCloser).CloseWrite()
		})
	}
	both.Wait()
}

func relaysReady(hello relayHello) error {
	var err error
	if hello.Metrics, err = serveGoStats(); err != nil {
		return err
	}
	if err := sayHello(hello); err != nil {
		return err
	}
	select {}
}

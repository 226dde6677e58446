package main

import (
	"net"

	"golang.org/x/net/dns/dnsmessage"
)

// startNames serves DNS on loopback: the quickstart's upstream is at 127.0.0.1, no other name exists. The sidecar asks it
// as any cluster's DNS, so that its resolver and its judgement of addresses are the real ones.
func startNames() (address string, stop func(), err error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := answerName(buf[:n]); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return conn.LocalAddr().String(), func() { _ = conn.Close(); <-done }, nil
}

func answerName(query []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	known := q.Name.String() == ordersHost+"."
	header.Response, header.Authoritative = true, true
	if !known {
		header.RCode = dnsmessage.RCodeNameError
	}
	m := dnsmessage.Message{Header: header, Questions: []dnsmessage.Question{q}}
	if known && q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	return m.Pack()
}

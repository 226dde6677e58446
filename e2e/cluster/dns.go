//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// names answers DNS queries for services, as the cluster's name server would (github.com/kubernetes/dns, specification 1.1.0, of services
// with and without an address of their own). It asks the API server each time, so that it is never behind. Other names do not exist.
type names struct{ api *apiClient }

const serviceZone = ".svc.cluster.local."

// serve listens on the node's address, which pods have as their name server.
func (n names) serve() error {
	for _, network := range []string{"udp", "tcp"} {
		ready := make(chan error, 2)
		s := &dns.Server{Addr: nodeIP + ":53", Net: network, Handler: n, NotifyStartedFunc: func() { ready <- nil }}
		go func() { ready <- s.ListenAndServe() }()
		if err := <-ready; err != nil {
			return fmt.Errorf("name server: %w", err)
		}
	}
	return nil
}

// ServeDNS answers one query.
func (n names) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer := new(dns.Msg).SetReply(q)
	answer.Authoritative = true
	name := strings.ToLower(q.Question[0].Name)
	addresses, err := n.addresses(ctx, name)
	switch {
	case err != nil:
		answer.Rcode = dns.RcodeNameError
	default:
		for _, a := range addresses {
			h := dns.RR_Header{Name: q.Question[0].Name, Class: dns.ClassINET, Ttl: 1}
			switch {
			case a.Is4() && q.Question[0].Qtype == dns.TypeA:
				h.Rrtype = dns.TypeA
				answer.Answer = append(answer.Answer, &dns.A{Hdr: h, A: a.AsSlice()})
			case a.Is6() && q.Question[0].Qtype == dns.TypeAAAA:
				h.Rrtype = dns.TypeAAAA
				answer.Answer = append(answer.Answer, &dns.AAAA{Hdr: h, AAAA: a.AsSlice()})
			}
		}
	}
	_ = w.WriteMsg(answer) // a client that has gone asks again
}

// addresses are a service's: [host.]service.namespace.svc.cluster.local.
func (n names) addresses(ctx context.Context, name string) ([]netip.Addr, error) {
	labels := strings.Split(strings.TrimSuffix(name, serviceZone), ".")
	if !strings.HasSuffix(name, serviceZone) || len(labels) < 2 || len(labels) > 3 {
		return nil, fmt.Errorf("%s is no service's name", name)
	}
	service, namespace := labels[len(labels)-2], labels[len(labels)-1]
	var s struct {
		Spec struct{ ClusterIPs []string }
	}
	if err := n.api.get(ctx, "/api/v1/namespaces/"+namespace+"/services/"+service, &s); err != nil {
		return nil, err
	}
	if len(labels) == 2 && len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIPs[0] != "None" {
		return parsed(s.Spec.ClusterIPs), nil
	}
	var slices struct {
		Items []struct {
			Endpoints []struct {
				Addresses  []string
				Hostname   string
				Conditions struct{ Ready *bool }
			}
		}
	}
	if err := n.api.get(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D"+service, &slices); err != nil {
		return nil, err
	}
	var all []netip.Addr
	for _, item := range slices.Items {
		for _, e := range item.Endpoints {
			if (e.Conditions.Ready == nil || *e.Conditions.Ready) && (len(labels) == 2 || e.Hostname == labels[0]) {
				all = append(all, parsed(e.Addresses)...)
			}
		}
	}
	if len(labels) == 3 && all == nil {
		return nil, fmt.Errorf("%s is no endpoint's name", name)
	}
	return all, nil
}

func parsed(texts []string) []netip.Addr {
	var all []netip.Addr
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil {
			all = append(all, a)
		}
	}
	return all
}

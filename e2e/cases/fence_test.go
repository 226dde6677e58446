//go:build linux

package cases

import (
	"os"
	"strings"
	"testing"
)

// TestFence runs tools behind the whole of the transparent mode: the rules of netinit, captured connections, the name server of
// kind dns, the sidecar as a user of its own. The tools are curl and this test binary, know of no proxy, and have no capability.
func TestFence(t *testing.T) {
	note(t)
	l := newLab(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, p *pod)
	}{
		{"allowed", fenceAllowed}, {"tools", fenceTools}, {"strangers", fenceStrangers}, {"direct", fenceDirect}, {"names", fenceNames},
		{"dead", fenceDead}, {"escapes", fenceEscapes}, {"ipv4-only", fenceIPv4Only}, {"lifted", fenceLifted}, {"by-itself", fenceByItself},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.begin()
			p := l.pod(t)
			c.run(t, p)
			p.tap.only(t)
		})
	}
}

// resolve has curl connect to an address for a name, without asking for it.
func resolve(host, address string) []string { return []string{"--resolve", host + ":443:" + address} }

// fenceAllowed: curl reaches what its tool may reach, by names that the sidecar's name server gave it and by addresses of either
// family. What has no binding it reaches under the origin's own certificate, the rest with the credential that it has not.
func fenceAllowed(t *testing.T, p *pod) {
	for _, how := range [][]string{nil, resolve("a.wild.test", addrE1), resolve("a.wild.test", "["+addrE6+"]")} {
		if out, code := p.curl(t, uid1, "upstream-ca.pem", append(how, "https://a.wild.test/x")...); code != 0 || out != "reached a.wild.test" {
			t.Errorf("relayed, %v: exit %d, %s", how, code, out)
		}
	}
	if out, code := p.curl(t, uid1, "upstream-ca.pem", "https://six.wild.test/"); code != 0 || out != "reached six.wild.test" {
		t.Errorf("to an upstream over IPv6: exit %d, %s", code, out)
	}
	for i, how := range [][]string{nil, resolve("api.ok.test", addrE1), resolve("api.ok.test", "["+addrE6+"]")} {
		if out, code := p.curl(t, uid1, "ca.pem", append(how, "https://api.ok.test/")...); code != 0 || out != "reached api.ok.test" {
			t.Errorf("intercepted, %v: exit %d, %s", how, code, out)
		}
		got := p.got("api.ok.test")
		if len(got) != i+1 || got[i].header.Get("Authorization") != "Bearer "+secretA {
			t.Errorf("intercepted, %v: the upstream got %v", how, got)
		}
	}
	if _, code := p.curl(t, uid1, "upstream-ca.pem", "https://api.ok.test/"); code != curlBadCertificate {
		t.Errorf("a bound host under the origin's certificate: exit %d", code)
	}
	if out, code := p.curl(t, uid1, "ca.pem", "http://api.ok.test/plain"); code != 0 || out != "reached api.ok.test" {
		t.Errorf("plain HTTP: exit %d, %s", code, out)
	}
}

// Exit codes of curl.
const (
	curlRefused        = 7
	curlNoName         = 6
	curlTLS            = 35
	curlBadCertificate = 60
)

// fenceTools: the kernel says which tool a connection is of. Each gets its own policy and credential.
func fenceTools(t *testing.T, p *pod) {
	if out, code := p.curl(t, uid2, "ca.pem", append(resolve("api.ok.test", addrE1), "https://api.ok.test/")...); code != 0 {
		t.Fatalf("exit %d, %s", code, out)
	}
	if got := p.got("api.ok.test"); len(got) != 1 || got[0].header.Get("Authorization") != "Bearer "+secretB {
		t.Errorf("the other tool's call: %v", got)
	}
	for _, address := range []string{addrE1, "[" + addrE6 + "]"} {
		how := append(resolve("one.ok.test", address), "https://one.ok.test/")
		if out, code := p.curl(t, uid1, "upstream-ca.pem", how...); code != 0 || out != "reached one.ok.test" {
			t.Errorf("its own host: exit %d, %s", code, out)
		}
		if out, code := p.curl(t, uid2, "upstream-ca.pem", how...); code != curlTLS {
			t.Errorf("the other tool's host: exit %d, %s", code, out)
		}
	}
	if got := p.got("one.ok.test"); len(got) != 2 {
		t.Errorf("%d requests arrived", len(got))
	}
	for _, r := range p.records() {
		if r.Host == "one.ok.test" && (r.Tenant == "B") != (r.Code == "domain_not_allowed") {
			t.Errorf("record %+v", r)
		}
	}
}

// fenceStrangers: who is no tool gets nothing, be it root, and no tool gets another's listener or the admin port.
func fenceStrangers(t *testing.T, p *pod) {
	for _, uid := range []uint32{0, uidNone} {
		for _, address := range []string{addrU2, "[" + addrSix + "]"} {
			if out, code := p.curl(t, uid, "upstream-ca.pem", append(resolve("a.wild.test", address), "https://a.wild.test/")...); code != curlRefused {
				t.Errorf("uid %d: exit %d, %s", uid, code, out)
			}
		}
		p.expect(t, uid, "udp", addrNS+":53", "not permitted")
	}
	for _, a := range []string{"127.0.0.1:15002", "[::1]:15002", "127.0.0.1:15001", "[::1]:15001", "127.0.0.1:15020", "127.0.0.1:15053"} {
		p.expect(t, uid1, "tcp", a, "refused")
	}
	p.tap.silent(t)
}

// expect tries something as a user of the pod. Of the outcomes one must be had.
func (p *pod) expect(t *testing.T, uid uint32, try, address string, outcomes ...string) {
	t.Helper()
	got, _ := p.finish(t, uid, role(t, "try", try, address))
	for _, o := range outcomes {
		if got == o {
			return
		}
	}
	t.Errorf("uid %d, %s %s: %s, expected %s", uid, try, address, got, strings.Join(outcomes, " or "))
}

// fenceDirect: a connection to an address is captured and denied by the name that it gives, or for lack of one. Nothing of it
// arrives there. QUIC fails at once, and the client falls back.
func fenceDirect(t *testing.T, p *pod) {
	for _, address := range []string{addrE1, "[" + addrE6 + "]"} {
		for _, target := range []string{"https://evil.test/", "https://" + address + "/"} {
			out, code := p.curl(t, uid1, "upstream-ca.pem", append(resolve("evil.test", address), "-k", target)...)
			if code != curlTLS {
				t.Errorf("%s at %s: exit %d, %s", target, address, code, out)
			}
		}
		out, code := p.curl(t, uid1, "upstream-ca.pem", "-o", os.DevNull, "-w", "%{http_code}", "http://"+address+"/")
		if code != 0 || !strings.HasPrefix(out, "4") {
			t.Errorf("plain HTTP to %s: exit %d, %s", address, code, out)
		}
		p.expect(t, uid1, "udp", address+":443", "not permitted")
		p.expect(t, uid1, "udp", address+":8443", "not permitted")
	}
	p.unasked(t)
	p.tap.silent(t)
	if out, code := p.curl(t, uid1, "upstream-ca.pem", "-o", os.DevNull, "-w", "%{http_version}", "https://a.wild.test/"); code != 0 || out != "2" {
		t.Errorf("after QUIC: exit %d, HTTP/%s", code, out)
	}
}

// fenceNames: queries go to the sidecar's name server wherever they were sent, over UDP and TCP, and it asks nobody.
func fenceNames(t *testing.T, p *pod) {
	for _, server := range []string{addrNS + ":53", addrE1 + ":53", "[" + addrE6 + "]:53", "127.0.0.1:53"} {
		p.expect(t, uid1, "tcp", server, "done")
	}
	if out, code := p.curl(t, uid1, "upstream-ca.pem", "https://stolen-data.evil.test/"); code != curlNoName {
		t.Errorf("a name that is not allowed: exit %d, %s", code, out)
	}
	if out, code := p.run(t, uid1, "getent", "ahostsv4", "a.wild.test"); code != 0 || !strings.HasPrefix(out, "192.0.2.1 ") {
		t.Errorf("a name that is allowed: exit %d, %s", code, out)
	}
	for uid, code := range map[uint32]int{uid1: 0, uid2: 2} { // getent's for a name that is not there
		if out, got := p.run(t, uid, "getent", "ahostsv4", "one.ok.test"); got != code {
			t.Errorf("uid %d asks for a name of tool t1: exit %d, %s", uid, got, out)
		}
	}
	if out, code := p.run(t, uid2, "getent", "ahostsv4", "api.ok.test"); code != 0 {
		t.Errorf("the other tool asks for a name of its own: exit %d, %s", code, out)
	}
	p.unasked(t)
	p.tap.silent(t)
}

// fenceIPv4Only: nothing of a tool's passes over IPv6, and the sidecar's test of both families still holds.
func fenceIPv4Only(t *testing.T, p *pod) {
	p.netinit(t, "--ipv4-only")
	p.expect(t, uid1, "tcp", "["+addrSix+"]:443", "refused")
	p.expect(t, uid1, "udp", "["+addrSix+"]:53", "not permitted")
	if out, code := p.curl(t, uid1, "upstream-ca.pem", "https://a.wild.test/"); code != 0 {
		t.Errorf("over IPv4: exit %d, %s", code, out)
	}
	if status, body := p.adminGet("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	p.tap.only(t)
}

// fenceDead: without the sidecar nothing passes, and the tool is told at once.
func fenceDead(t *testing.T, p *pod) {
	p.kill()
	p.tap.forget()
	for _, address := range []string{addrU2, "[" + addrSix + "]"} {
		if out, code := p.curl(t, uid1, "upstream-ca.pem", append(resolve("a.wild.test", address), "https://a.wild.test/")...); code != curlRefused {
			t.Errorf("exit %d, %s", code, out)
		}
	}
	p.expect(t, uid1, "udp", addrNS+":53", "refused", "not permitted")
	p.tap.silent(t)
	p.again(t)
	if out, code := p.curl(t, uid1, "upstream-ca.pem", "https://a.wild.test/"); code != 0 {
		t.Errorf("after the start: exit %d, %s", code, out)
	}
}

// fenceEscapes: what else a tool might try leaves the fence as it was, and nothing leaves the pod.
func fenceEscapes(t *testing.T, p *pod) {
	four, six := addrE1+":443", "["+addrE6+"]:443"
	for _, try := range []string{"raw", "icmp", "udplite", "sctp", "lsrr", "bound", "marked", "transparent"} {
		p.expect(t, uid1, try, four, "not permitted", "not supported", "refused", "timeout")
	}
	for _, try := range []string{"raw", "icmp6", "udplite", "sctp", "srh", "hopopts", "bound", "marked"} {
		p.expect(t, uid1, try, six, "not permitted", "not supported", "refused", "timeout")
	}
	for _, a := range []string{"127.0.0.1:443", "[::1]:443", "127.0.0.1:15001"} { // from a node's point of view its own
		p.expect(t, uid1, "bound", a, "timeout", "refused")
	}
	p.expect(t, uid1, "fastopen", four, "done")
	p.expect(t, uid1, "fastopen", six, "done")
	p.expect(t, uid1, "packet", "", "not permitted")
	p.expect(t, uid1, "tun", "", "not permitted", "not supported")
	p.expect(t, uid1, "setuid", "", "not permitted")
	for _, a := range []string{"127.0.0.1:15001", "127.0.0.1:15002", "[::1]:15001", "0.0.0.0:15001", "[::]:15020"} {
		p.expect(t, uid1, "bind", a, "in use")
	}
	config := p.dir + "/sidecar.yaml"
	for _, undo := range [][]string{
		{p.cmd.Path, "netinit", "--config", config, "--remove"},
		{"unshare", "--user", "--map-root-user", p.cmd.Path, "netinit", "--config", config, "--remove"},
		{"unshare", "--user", "--map-root-user", "curl", "-sS", "--max-time", "5", "-k", "https://" + addrE1 + "/"},
	} {
		if out, code := p.run(t, uid1, undo[0], undo[1:]...); code == 0 {
			t.Errorf("%v: %s", undo, out)
		}
	}
	p.tap.silent(t)
	p.netinit(t, "--check")
}

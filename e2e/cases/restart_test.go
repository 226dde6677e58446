//go:build linux

package cases

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func podCases() []replay {
	return []replay{
		{"K8S-13", "istio traffic-capture limits; gh-aw-firewall#9",
			"UDP to 443, DNS over UDP and TCP to other servers, ICMP, SCTP, UDP-Lite from a tool", "nothing leaves the pod; names come from the sidecar's own server", otherProtocols},
		{"K8S-15", "CVE-2023-27594 (cilium)",
			"TCP and UDP over IPv6 from a tool, in a pod of both families", "captured and denied, or refused, as over IPv4", overIPv6},
		{"K8S-16", "CVE-2023-27595 (cilium)",
			"a tool that dials without pause, at addresses of both families, while the sidecar is killed and started ten times",
			"nothing of the tool's leaves the pod; it is refused, or denied, or its allowed calls pass", restarts},
	}
}

// hammering is a tool that dials without pause.
type hammering struct {
	in   io.WriteCloser
	out  *bufio.Reader
	wait func() error
}

// hammer starts it, at addresses with names.
func (p *pod) hammer(t *testing.T, uid uint32, at ...string) hammering {
	t.Helper()
	cmd := role(t, "hammer", at...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.start(cmd, uid); err != nil {
		t.Fatal(err)
	}
	h := hammering{in, bufio.NewReader(out), cmd.Wait}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	if line, err := h.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the tool is not ready: %q, %v", line, err)
	}
	return h
}

// stop ends it and returns how often what came of which address.
func (h hammering) stop(t *testing.T) map[string]int {
	t.Helper()
	_ = h.in.Close()
	counts := map[string]int{}
	for {
		line, err := h.out.ReadString('\n')
		if err != nil {
			return counts
		}
		i := strings.LastIndexByte(line, ' ')
		n, err := strconv.Atoi(strings.TrimSpace(line[i+1:]))
		if err != nil {
			t.Fatalf("the tool says %q", line)
		}
		counts[line[:i]] += n
	}
}

// otherProtocols is K8S-13.
func otherProtocols(t *testing.T, w *world) {
	p := w.lab.pod(t)
	for _, address := range []string{addrE1, "[" + addrE6 + "]"} {
		p.expect(t, uid1, "udp", address+":443", "not permitted")
		p.expect(t, uid1, "udplite", address+":443", "not permitted", "not supported") // by the kernel at hand
		p.expect(t, uid1, "sctp", address+":443", "not permitted", "not supported")    // by the kernel at hand
	}
	p.expect(t, uid1, "icmp", addrE1+":0", "not permitted")
	p.expect(t, uid1, "icmp6", "["+addrE6+"]:0", "not permitted")
	fenceNames(t, p)
}

// overIPv6 is K8S-15: what is sent to an IPv6 address fares as what is sent to an IPv4 one.
func overIPv6(t *testing.T, w *world) {
	p := w.lab.pod(t)
	h := p.hammer(t, uid1, "["+addrE6+"]:443=evil.test", "["+addrE6+"]:8443=evil.test")
	p.expect(t, uid1, "udp", "["+addrE6+"]:443", "not permitted")
	p.expect(t, uid1, "udp", "["+addrE6+"]:8443", "not permitted")
	if out, code := p.curl(t, uid1, "upstream-ca.pem", append(resolve("a.wild.test", "["+addrE6+"]"), "https://a.wild.test/")...); code != 0 {
		t.Errorf("an allowed host over IPv6: exit %d, %s", code, out)
	}
	counts := h.stop(t)
	p.tap.only(t)
	for what, n := range counts {
		if strings.HasSuffix(what, " through") && n > 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	if counts["["+addrE6+"]:443=evil.test denied"] == 0 {
		t.Errorf("the tool was never denied: %v", counts)
	}
}

// restarts is K8S-16: nothing passes directly while the sidecar comes and goes.
func restarts(t *testing.T, w *world) {
	p := w.lab.pod(t)
	allowed, evil4, evil6 := addrE1+":443=a.wild.test", addrE1+":443=evil.test", "["+addrE6+"]:443=evil.test"
	h := p.hammer(t, uid1, allowed, evil4, evil6)
	for range 10 {
		p.kill()
		p.again(t)
	}
	counts := h.stop(t)
	p.tap.only(t)
	if counts[evil4+" through"] != 0 || counts[evil6+" through"] != 0 {
		t.Errorf("connections to the denied host: %v", counts)
	}
	for _, seen := range []string{allowed + " through", evil4 + " denied", evil6 + " denied", evil4 + " refused"} {
		if counts[seen] == 0 {
			t.Errorf("the tool never saw %q: %v", seen, counts)
		}
	}
}

// fencedCrash is LIF-02 in a pod: the rules outlive a sidecar that was killed under load.
func fencedCrash(t *testing.T, w *world) {
	p := w.lab.pod(t)
	p.up.handle("api.ok.test", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	h := p.hammer(t, uid1, addrE1+":443=a.wild.test", "["+addrE6+"]:443=evil.test")
	asked := make(chan int, 1)
	go func() {
		_, code := p.curl(t, uid1, "ca.pem", "https://api.ok.test/")
		asked <- code
	}()
	eventually(t, "a call runs", func() bool { return len(p.got("api.ok.test")) == 1 })
	p.kill()
	if code := <-asked; code == 0 {
		t.Error("a call ended well that never had an answer")
	}
	p.tap.forget()
	p.expect(t, uid1, "tcp", addrE1+":443", "refused")
	p.expect(t, uid1, "tcp", "["+addrE6+"]:443", "refused")
	p.tap.silent(t)
	p.netinit(t, "--check")
	p.noSecrets(t)
	began := time.Now()
	p.again(t)
	if d := time.Since(began); d > 10*time.Second { // a busy machine needs more than a second
		t.Errorf("the start took %s", d)
	}
	h.stop(t)
	p.tap.only(t)
}

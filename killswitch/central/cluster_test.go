package central_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
)

// envConfig makes the test binary a NATS server with this configuration file.
const envConfig = "TOOLGATE_TEST_NATS_CONFIG"

func TestMain(m *testing.M) {
	if path := os.Getenv(envConfig); path != "" {
		serveNATS(path)
	}
	os.Exit(m.Run())
}

func serveNATS(path string) {
	opts, err := server.ProcessConfigFile(path)
	if err == nil {
		var s *server.Server
		if s, err = server.NewServer(opts); err == nil {
			s.ConfigureLogger()
			err = server.Run(s)
			s.WaitForShutdown()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// cluster is three NATS servers, each a process, with the accounts that the permissions command prints.
type cluster struct {
	*testing.T
	dir   string
	urls  []string
	nodes []*exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, dir: t.TempDir(), nodes: make([]*exec.Cmd, 3)}
	clients, routes := freePorts(t, 3), freePorts(t, 3)
	var peers []string
	for _, p := range routes {
		peers = append(peers, fmt.Sprintf("%q", fmt.Sprintf("nats://127.0.0.1:%d", p)))
	}
	for i := range 3 {
		text := fmt.Sprintf("server_name: n%d\nlisten: 127.0.0.1:%d\njetstream {store_dir: %q}\ncluster {name: c, listen: 127.0.0.1:%d, routes: [%s]}\n",
			i, clients[i], filepath.Join(c.dir, fmt.Sprint("store", i)), routes[i], strings.Join(peers, ", ")) + natsd.ServerConfig()
		check(t, os.WriteFile(c.config(i), []byte(text), 0o600))
		c.urls = append(c.urls, fmt.Sprintf("nats://127.0.0.1:%d", clients[i]))
		c.start(i)
	}
	return c
}

// freePorts returns ports that were free a moment ago: the servers must know each other's before they start.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		defer func() { _ = ln.Close() }()
		ports = append(ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func (c *cluster) config(i int) string { return filepath.Join(c.dir, fmt.Sprintf("n%d.conf", i)) }

func (c *cluster) start(i int) {
	c.Helper()
	exe, err := os.Executable()
	check(c, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envConfig+"="+c.config(i), "TOOLGATE_CONTROL_PASSWORD=control", "TOOLGATE_SIDECAR_PASSWORD=sidecar")
	check(c, cmd.Start())
	c.nodes[i] = cmd
	c.Cleanup(func() { c.kill(i) })
}

// kill ends a server without a word, as kill -9 does.
func (c *cluster) kill(i int) {
	if cmd := c.nodes[i]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c.nodes[i] = nil
	}
}

func (c *cluster) connect(user string) *nats.Conn {
	c.Helper()
	conn, err := nats.Connect(strings.Join(c.urls, ","), nats.UserInfo(user, user), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.RetryOnFailedConnect(true), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	check(c, err)
	c.Cleanup(conn.Close)
	return conn
}

// TestACluster: of three servers one may be lost, and nothing is noticed. With two lost, nothing is written and the error
// says so; once they are back, what was asked for meanwhile is there once or not at all.
func TestACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three NATS servers")
	}
	t.Parallel()
	c := newCluster(t)
	l := newLab(t)
	two := []*replica{}
	for range 2 {
		two = append(two, l.serviceOn(c.connect("control"), func(o *central.Options) { o.Replicas = 3 }))
	}
	ready := func(r *replica) func() bool { return func() bool { return r.Ready() == nil } }
	eventually(t, "both replicas are ready", func() bool { return ready(two[0])() && ready(two[1])() })
	p := l.podOn(c.connect("sidecar"), "sidecar", "p", "x")
	revoke(t, two[0], "a")
	revoke(t, two[1], "b")
	eventually(t, "both are in force", func() bool { return p.revision() == 2 })

	c.kill(0)
	eventually(t, "a revocation goes through without one server", func() bool {
		_, err := two[0].Revoke(t.Context(), alice, central.Request{ID: "c", Selector: tool("c"), Reason: "test"})
		return err == nil
	})
	eventually(t, "the sidecar has it", func() bool { return p.revision() == 3 })

	c.kill(1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := two[0].Revoke(ctx, alice, central.Request{ID: "d", Selector: tool("d"), Reason: "test"})
	if !errors.Is(err, &central.Error{Code: central.Unavailable}) && !errors.Is(err, &central.Error{Code: central.UnknownOutcome}) {
		t.Fatalf("without a quorum: %v", err)
	}
	t.Logf("without a quorum: %v", err)
	if p.revision() != 3 {
		t.Fatal("a sidecar heard what is not stored")
	}
	eventually(t, "it is an alarm", func() bool { return alarmed(two[0], central.AlarmStore) && two[0].Ready() != nil })

	c.start(0)
	c.start(1)
	eventually(t, "it recovers", func() bool {
		out, err := two[1].Revoke(t.Context(), alice, central.Request{ID: "d", Selector: tool("d"), Reason: "test"})
		return err == nil && out.Entry.Revision == 4
	})
	eventually(t, "all are ready, and the sidecar has it once", func() bool {
		return p.revision() == 4 && len(p.revoked()) == 4 && ready(two[0])() && ready(two[1])()
	})
}

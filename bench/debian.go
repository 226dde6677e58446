//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// debianConfig fills the configs of the peers that come from Debian (setup.sh installs them). They run in the foreground from a
// scratch folder, without cache, and write their records to /dev/null.
type debianConfig struct {
	Dir                string
	Listen, Secure, H2 string
	Plain, TLS, CA     string // the upstream's
	CertFile, KeyFile  string
	Name               string // by which the upstream is verified: nginx looks at no address in a certificate
	User               string // whom workers of nginx run as; empty when it is not root
}

// Host and Port split Listen for configs that want them apart.
func (c debianConfig) Host() string { return c.Listen[:strings.LastIndexByte(c.Listen, ':')] }

// Port is the port of Listen.
func (c debianConfig) Port() string { return port(c.Listen) }

// PlainPort and TLSPort are the upstream's.
func (c debianConfig) PlainPort() string { return port(c.Plain) }

// TLSPort is the upstream's.
func (c debianConfig) TLSPort() string { return port(c.TLS) }

var squidTemplate = template.Must(template.New("squid.conf").Parse(`http_port {{.Listen}}
acl CONNECT method CONNECT
acl allowed dstdomain -n 127.0.0.1
acl ports port {{.PlainPort}} {{.TLSPort}}
http_access allow CONNECT allowed ports
http_access deny all
cache deny all
cache_mem 0
access_log stdio:/dev/null
cache_log /dev/null
cache_store_log none
pid_filename none
netdb_filename none
pinger_enable off
coredump_dir {{.Dir}}
visible_hostname bench
max_filedescriptors 16384
shutdown_lifetime 0
client_db off
`))

var tinyproxyTemplate = template.Must(template.New("tinyproxy.conf").Parse(`Listen {{.Host}}
Port {{.Port}}
Timeout 600
MaxClients 16384
LogFile "/dev/null"
LogLevel Info
ConnectPort {{.PlainPort}}
ConnectPort {{.TLSPort}}
Filter "{{.Dir}}/allowed"
FilterDefaultDeny Yes
`))

var haproxyTemplate = template.Must(template.New("haproxy.cfg").Parse(`global
  maxconn 4000
defaults
  mode tcp
  option splice-auto
  timeout connect 10s
  timeout client 10m
  timeout server 10m
listen plain
  bind {{.Listen}}
  server upstream {{.Plain}}
listen secure
  bind {{.Secure}}
  server upstream {{.TLS}}
`))

var nginxTemplate = template.Must(template.New("nginx.conf").Parse(`daemon off;
pid {{.Dir}}/nginx.pid;
error_log /dev/null;
worker_processes auto;
{{- if .User}}
user {{.User}};
{{- end}}
events { worker_connections 4096; }
http {
  access_log /dev/null;
  client_body_temp_path {{.Dir}}/body;
  proxy_temp_path {{.Dir}}/proxy;
  fastcgi_temp_path {{.Dir}}/fastcgi;
  uwsgi_temp_path {{.Dir}}/uwsgi;
  scgi_temp_path {{.Dir}}/scgi;
  keepalive_requests 100000000;
  keepalive_timeout 10m;
  upstream bench {
    server {{.TLS}};
    keepalive 64;
    keepalive_requests 100000000;
  }
  server {
    listen {{.Secure}} ssl;
    listen {{.H2}} ssl http2;
    ssl_certificate {{.CertFile}};
    ssl_certificate_key {{.KeyFile}};
    location / {
      proxy_pass https://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_ssl_verify on;
      proxy_ssl_name {{.Name}};
      proxy_ssl_trusted_certificate {{.CA}};
    }
  }
}
`))

// startSquid gives each Squid a service name of its own: it makes segments of shared memory under that name, which one that is killed
// leaves behind.
func startSquid(ctx context.Context, l *lab, uid int) (*proxy, error) {
	l.squids++
	name := fmt.Sprintf("bench%dx%d", os.Getpid(), l.squids)
	p, err := l.startDebian(ctx, "squid", squidTemplate, uid, func(config string) []string { return []string{"-N", "-n", name, "-f", config} })
	if err != nil {
		return nil, err
	}
	p.child.after = func() {
		left, _ := filepath.Glob("/dev/shm/" + name + "-*")
		for _, file := range left {
			_ = os.Remove(file)
		}
	}
	return p, nil
}

func startTinyproxy(ctx context.Context, l *lab, uid int) (*proxy, error) {
	return l.startDebian(ctx, "tinyproxy", tinyproxyTemplate, uid, func(config string) []string { return []string{"-d", "-c", config} })
}

func startHAProxy(ctx context.Context, l *lab, uid int) (*proxy, error) {
	return l.startDebian(ctx, "haproxy", haproxyTemplate, uid, func(config string) []string { return []string{"-db", "-q", "-f", config} })
}

func startNginx(ctx context.Context, l *lab, uid int) (*proxy, error) {
	return l.startDebian(ctx, "nginx", nginxTemplate, uid, func(config string) []string {
		return []string{"-e", "/dev/null", "-p", filepath.Dir(config), "-c", config}
	})
}

// startDebian writes a program's config to a folder of its own, starts it and waits until its ports answer.
func (l *lab) startDebian(ctx context.Context, name string, config *template.Template, uid int, args func(config string) []string) (*proxy, error) {
	c, err := l.debianConfig(name, uid)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.Dir, config.Name())
	if err := fill(file, config, c); err != nil {
		return nil, err
	}
	path := (&peer{program: name}).find()
	child, err := spawn(ctx, uid, path, args(file)...)
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, child.stdout) }()
	p := &proxy{child: child, addr: c.Listen}
	ports := []string{c.Listen}
	switch name {
	case "haproxy":
		p.addr, p.fixed, ports = "", &upstreamHello{Plain: c.Listen, TLS: c.Secure}, []string{c.Listen, c.Secure}
	case "nginx":
		p.addr, p.fixed, ports = "", &upstreamHello{TLS: c.Secure, H2: c.H2}, []string{c.Secure, c.H2}
	}
	for _, addr := range ports {
		if err := waitOpen(ctx, child, addr); err != nil {
			child.stop()
			return nil, fmt.Errorf("%s did not start: %w: %s", name, err, child.errs.String())
		}
	}
	return p, nil
}

func (l *lab) debianConfig(name string, uid int) (c debianConfig, err error) {
	c = debianConfig{Name: upstreamName, Plain: l.upstream.Plain, TLS: l.upstream.TLS, CA: l.caFile}
	if c.Dir, err = os.MkdirTemp(l.dir, name); err != nil {
		return c, err
	}
	for _, addr := range []*string{&c.Listen, &c.Secure, &c.H2} {
		if *addr, err = freeAddress(); err != nil {
			return c, err
		}
	}
	if os.Getuid() == 0 && uid <= 0 {
		c.User = "root" // as the other peers; the rows that ask for an ordinary uid name it
	}
	c.CertFile, c.KeyFile = filepath.Join(c.Dir, "cert.pem"), filepath.Join(c.Dir, "key.pem")
	err = errors.Join(os.Chmod(c.Dir, 0o777), // whoever it runs as writes its scratch there
		writePair(c.CertFile, c.KeyFile),
		os.WriteFile(filepath.Join(c.Dir, "allowed"), []byte("^127\\.0\\.0\\.1$\n"), 0o644))
	return c, err
}

// waitOpen polls until a port accepts, the process ends, or ten seconds have gone.
func waitOpen(ctx context.Context, c *child, addr string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no port after 10 s"))
	defer cancel()
	for {
		if err := c.alive(); err != nil {
			return err
		}
		if conn, err := net.Dial("tcp4", addr); err == nil {
			return conn.Close()
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// debianVersion returns what a program says of itself, in its first line that has a digit.
func debianVersion(path string) string {
	out, err := exec.Command(path, "-v").CombinedOutput()
	if err != nil {
		return "?"
	}
	for line := range bytes.Lines(out) {
		if bytes.ContainsAny(line, "0123456789") {
			return strings.TrimSpace(string(line))
		}
	}
	return "?"
}

// Command tool is what runs in the tests' pods. With "pause", its image's default, it waits for a signal and collects orphans, as the
// container that holds a pod's namespaces must.
//
//	tool get URL...          each with the proxy of the environment: status and body, one line each
//	tool dial NETWORK ADDR   whether a connection is made; for udp, whether a datagram is sent
//	tool serve ADDR          answers each request with its method, host and path
//	tool stream URL          reads until it ends, and waits: when and how it ended
//	tool hammer URL...       asks them in turn without pause: how often what came of it
//	tool linger URL          waits for SIGTERM, and asks after it
//	tool sleep DURATION      ends with 0, or at SIGTERM
//	tool id                  user, group and capabilities of this process
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	args := append(os.Args[1:], "")
	var err error
	switch args[0] {
	case "get":
		err = get(os.Args[2:])
	case "dial":
		err = dial(os.Args[2], os.Args[3])
	case "serve":
		err = http.ListenAndServe(os.Args[2], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s%s\n", r.Method, r.Host, r.URL)
		}))
	case "stream":
		err = stream(os.Args[2])
	case "hammer":
		err = hammer(os.Args[2:])
	case "linger":
		err = linger(os.Args[2])
	case "sleep":
		err = sleep(os.Args[2])
	case "id":
		err = id()
	case "pause":
		pause()
	default:
		err = fmt.Errorf("found command %q", args[0])
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func get(urls []string) error {
	client := http.Client{Timeout: 20 * time.Second}
	for _, u := range urls {
		res, err := client.Get(u)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return err
		}
		fmt.Println(res.StatusCode, strings.TrimSpace(string(body)))
	}
	return nil
}

func dial(network, addr string) error {
	c, err := net.DialTimeout(network, addr, 3*time.Second)
	if err != nil {
		return err
	}
	if strings.HasPrefix(network, "udp") {
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
	}
	fmt.Println("connected", c.RemoteAddr())
	return c.Close()
}

func sleep(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	select {
	case <-stop:
	case <-time.After(d):
	}
	return nil
}

func id() error {
	status, err := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") || strings.HasPrefix(line, "Uid") || strings.HasPrefix(line, "Seccomp:") {
			fmt.Print(line)
		}
	}
	return err
}

func pause() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

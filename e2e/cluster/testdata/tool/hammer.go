package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// hammer asks one URL after the other, over a connection of its own each, until SIGTERM. Every so often it says how often
// each was: an answer of 200, another answer, none.
func hammer(urls []string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	through, denied, failed := 0, 0, 0
	for n := 0; ; n++ {
		url := urls[n%len(urls)]
		res, err := client.Get(url)
		switch {
		case err != nil:
			failed++
			fmt.Println("failed:", err)
		case res.StatusCode == http.StatusOK:
			through++
		default:
			denied++
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		if n%20 == 0 {
			fmt.Printf("through=%d denied=%d failed=%d\n", through, denied, failed)
		}
		select {
		case <-stop:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// linger waits for SIGTERM, does more work after it, and says how that went and when it was done.
func linger(url string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Println("waiting")
	<-stop
	time.Sleep(2 * time.Second) // long enough for a sidecar that was told to stop at the same time
	fmt.Println("after SIGTERM:")
	err := get([]string{url})
	fmt.Println("done", time.Now().UTC().Format(time.RFC3339Nano))
	return err
}

package main

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// stream reads a response until it ends, says when it began and when and how it ended, and goes on to wait: a pod whose tool ended would
// restart it.
func stream(url string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	fmt.Println("began", res.StatusCode)
	n, err := io.Copy(io.Discard, res.Body)
	fmt.Println("ended", time.Now().UTC().Format(time.RFC3339Nano), n, err)
	pause()
	return nil
}

//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// goStats is what a Go process says about its heap, under the names that Prometheus' Go collector uses. That collector is
// what the sidecar exports; the peers that this program hosts print the same names.
type goStats struct {
	mallocs, allocBytes   float64 // since the start
	heapInuse, stackInuse float64 // bytes
	goroutines            float64
}

var goStatNames = map[string]func(*goStats) *float64{
	"go_memstats_mallocs_total":     func(s *goStats) *float64 { return &s.mallocs },
	"go_memstats_alloc_bytes_total": func(s *goStats) *float64 { return &s.allocBytes },
	"go_memstats_heap_inuse_bytes":  func(s *goStats) *float64 { return &s.heapInuse },
	"go_memstats_stack_inuse_bytes": func(s *goStats) *float64 { return &s.stackInuse },
	"go_goroutines":                 func(s *goStats) *float64 { return &s.goroutines },
}

// scrape reads them from a metrics page. A page that lacks one is an error: a missing figure must not read as 0. Without a page the
// answer is nil.
func scrape(ctx context.Context, url string) (*goStats, error) {
	if url == "" {
		return nil, nil
	}
	s, found := &goStats{}, 0
	err := scrapeLines(ctx, url, func(name, value string) (err error) {
		if field := goStatNames[name]; field != nil {
			*field(s), err = strconv.ParseFloat(value, 64)
			found++
		}
		return err
	})
	if err == nil && found != len(goStatNames) {
		err = fmt.Errorf("metrics page has %d of %d Go metrics", found, len(goStatNames))
	}
	return s, err
}

// scrapeOne reads one metric; name includes its labels.
func scrapeOne(ctx context.Context, url, name string) (v float64, err error) {
	found := false
	err = scrapeLines(ctx, url, func(n, value string) (err error) {
		if n == name {
			found = true
			v, err = strconv.ParseFloat(value, 64)
		}
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("metrics page has no %s", name)
	}
	return v, err
}

func scrapeLines(ctx context.Context, url string, line func(name, value string) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := scraper.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics page answered %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if err := line(name, value); err != nil {
			return err
		}
	}
	return lines.Err()
}

// scraper keeps no connection, so that a scrape leaves no descriptor behind in the process it looks at.
var scraper = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// serveGoStats serves this process's own figures on a free port and returns the page's URL.
func serveGoStats() (string, error) {
	addr, ln, err := listen()
	if err != nil {
		return "", err
	}
	go func() {
		_ = http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Fprintf(w, "go_memstats_mallocs_total %d\ngo_memstats_alloc_bytes_total %d\n", m.Mallocs, m.TotalAlloc)
			fmt.Fprintf(w, "go_memstats_heap_inuse_bytes %d\ngo_memstats_stack_inuse_bytes %d\n", m.HeapInuse, m.StackInuse)
			fmt.Fprintf(w, "go_goroutines %d\n", runtime.NumGoroutine())
		}))
	}()
	return "http://" + addr + "/metrics", nil
}

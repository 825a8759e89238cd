package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	browsers     = 40                     // of each way
	tabs         = 2                      // of a browser
	think        = 130 * time.Millisecond // mean time between two actions in a tab
	readsPerSave = 5
)

// browser is a user with several tabs open, which share the cookies.
type browser struct {
	user      int
	url       string
	transport *http.Transport
	jar       *cookiejar.Jar
	saved     [tabs]atomic.Int64 // the newest revision of each tab whose save has been answered
}

func newBrowser(s *httptest.Server, user int) *browser {
	jar, _ := cookiejar.New(nil) // it never fails
	return &browser{user: user, url: s.URL, jar: jar, transport: s.Client().Transport.(*http.Transport).Clone()}
}

// tab makes one request at a time.
type tab struct {
	*browser
	index    int
	client   http.Client
	revision int64       // of its last save
	least    [tabs]int64 // what the read under way must show
	seen     views
}

func (b *browser) open(index int) *tab {
	t := &tab{browser: b, index: index, seen: views{from: make(map[route]int)}}
	t.client = http.Client{Jar: b.jar, Transport: t, CheckRedirect: t.redirected}
	return t
}

// use saves now and then, and reads, until the end.
func (t *tab) use(ctx context.Context, end time.Time) error {
	for {
		sleep(ctx, rand.N(2*think))
		if ctx.Err() != nil || time.Now().After(end) {
			return ctx.Err()
		}
		act := t.look
		if rand.N(readsPerSave) == 0 {
			act = t.save
		}
		if err := act(ctx); err != nil {
			return err
		}
	}
}

// save posts a new revision and follows the redirect to the page that shows it.
func (t *tab) save(ctx context.Context) error {
	t.revision++
	form := url.Values{
		"user":     {strconv.Itoa(t.user)},
		"tab":      {strconv.Itoa(t.index + 1)},
		"revision": {strconv.FormatInt(t.revision, 10)},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return t.do(r)
}

// redirected is called when a save has been answered, and its cookie is there.
func (t *tab) redirected(*http.Request, []*http.Request) error {
	t.seen.saves++
	t.saved[t.index].Store(t.revision)
	t.begin()
	return nil
}

// look reads the page.
func (t *tab) look(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/?user=%d", t.url, t.user), nil)
	if err != nil {
		return err
	}
	t.begin()
	return t.do(r)
}

// begin notes what a read that starts now must show.
func (t *tab) begin() {
	for i := range t.least {
		t.least[i] = t.saved[i].Load()
	}
}

// do makes a request, follows its redirect, and judges the page.
func (t *tab) do(r *http.Request) error {
	answer, err := t.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s %s: %s: %s", r.Method, r.URL.Path, answer.Status, strings.TrimSpace(string(text)))
	}
	var shown [tabs]int64
	if err := json.NewDecoder(answer.Body).Decode(&shown); err != nil {
		return err
	}
	t.seen.reads++
	node, reason, _ := strings.Cut(answer.Header.Get(readFrom), " ")
	t.seen.from[route{node, reason}]++
	for i := range shown {
		if shown[i] < t.least[i] {
			t.seen.stale++
			break
		}
	}
	return nil
}

// RoundTrip measures each request, those of a redirect included.
func (t *tab) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	answer, err := t.transport.RoundTrip(r)
	took := time.Since(start)
	if r.Method == http.MethodPost {
		t.seen.saving = append(t.seen.saving, took)
	} else {
		t.seen.reading = append(t.seen.reading, took)
	}
	return answer, err
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

package controlplane_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestLogsReachTheDaemon has a process ask which logs are wanted, and send some.
func TestLogsReachTheDaemon(t *testing.T) {
	var mu sync.Mutex
	var written []string
	full := true
	w := newWorld(t, func(cfg *config) {
		cfg.AuthenticatorLines = func(_ time.Time, client string, user authnv1.UserInfo, err error) []string {
			return []string{client + " " + user.Username}
		}
		cfg.WriteLogs = func(_ context.Context, planeID, instance string, lines []controlplane.LogLine) error {
			mu.Lock()
			defer mu.Unlock()
			if full {
				return errors.New("no room")
			}
			for _, l := range lines {
				written = append(written, planeID+" "+instance+" "+l.Component+" "+l.Text)
			}
			return nil
		}
	})
	p := w.claim("o", account)
	tokenReview := func() {
		w.review(p.ID, "/token-review", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"good"}}`)
	}
	tokenReview() // is not logged yet

	// The request is answered when the logs that are wanted change.
	answer := make(chan string)
	go func() { answer <- w.review(p.ID, "/logging", `{"Components":null}`) }()
	if err := w.SetLogging(t.Context(), p.ID, []string{"authenticator", "kube-scheduler"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(<-answer); got != `{"Components":["authenticator","kube-scheduler"]}` {
		t.Error(got)
	}

	send := func() string {
		return strings.TrimSpace(w.review(p.ID, "/logs", `{"Lines":[{"Component":"kube-scheduler","Time":1,"Text":"hello"}]}`))
	}
	if got := send(); got != `{"Problem":"no room"}` {
		t.Error(got)
	}
	tokenReview()
	mu.Lock()
	full = false
	mu.Unlock()
	if got := send(); got != `{}` {
		t.Error(got)
	}
	want := regexp.MustCompile(`^` + p.ID + ` [0-9a-f]{32} kube-scheduler hello\n` + p.ID + ` [0-9a-f]{32} authenticator 127\.0\.0\.1:\d+ alice$`)
	testkit.Eventually(t, 20*time.Second, func() error {
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(written, "\n"); !want.MatchString(got) {
			return errors.New(got)
		}
		return nil
	})
}

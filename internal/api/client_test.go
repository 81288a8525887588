package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// Error responses become errors with their status and message.
func TestClientErrors(t *testing.T) {
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != "test/1" || r.Header.Get("Authorization") != "Bearer t" {
			t.Errorf("asked by %q with %q", r.UserAgent(), r.Header.Get("Authorization"))
		}
		switch r.URL.Path {
		case "/_drydock/why/node":
			http.Error(w, "no instance "+r.URL.Query().Get("name"), http.StatusNotFound)
		case "/_drydock/nodes":
			w.WriteHeader(http.StatusBadGateway)
		case "/_drydock/pod-runs":
			_, _ = w.Write([]byte("{}\n"))
		}
	}))
	c := &Client{Daemon: DaemonInfo{PID: 7, URL: daemon.URL, Token: "t"}, Agent: "test/1"}
	_, err := c.WhyNode(t.Context(), Place{}, "i-1")
	if said, ok := errors.AsType[*Error](err); !ok || said.Status != http.StatusNotFound || err.Error() != "no instance i-1" {
		t.Errorf("%v", err)
	}
	if _, err = c.Nodes(t.Context(), Place{}); err == nil || err.Error() != "the daemon (process 7) answered 502 Bad Gateway" {
		t.Errorf("%v", err)
	}
	if _, _, err = c.BeginPodRun(t.Context(), PodRunRequest{}); !errors.Is(err, errNoRun) {
		t.Errorf("%v", err)
	}
	daemon.Close()
	_, err = c.Status(t.Context())
	if _, ok := errors.AsType[*UnreachableError](err); !ok || !strings.HasPrefix(err.Error(), "the daemon (process 7) does not answer: ") {
		t.Errorf("%v", err)
	}
}

// Only its owner can read the daemon's record, and it is removed when the daemon exits.
func TestInfo(t *testing.T) {
	dir := t.TempDir()
	want := DaemonInfo{PID: 7, URL: "http://127.0.0.1:1", DataDir: dir, SecretAccessKey: "s"}
	if err := WriteInfo(want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadInfo(dir)
	mode, err2 := os.Stat(InfoFile(dir))
	if err != nil || err2 != nil || got != want || mode.Mode().Perm() != 0o600 {
		t.Errorf("%+v %v, %v", got, mode, errors.Join(err, err2))
	}
	RemoveInfo(dir)
	if _, err := ReadInfo(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

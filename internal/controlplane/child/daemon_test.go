package child

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// TestFollow checks that a process takes every change of what the daemon wants of it, and says what it has.
func TestFollow(t *testing.T) {
	wanted := []launch.Logging{
		{Components: []string{launch.APIServer}, Faults: launch.Faults{Delay: time.Second}, AutoMode: &automode.Setting{Version: "1.35", NodePools: []string{"system"}}},
		{Components: []string{launch.Audit}, AutoMode: &automode.Setting{Version: "1.36", NodePools: []string{"general-purpose"}}},
		{},
	}
	next, asked := make(chan launch.Logging), make(chan launch.Logging)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var have launch.Logging
		if err := json.NewDecoder(r.Body).Decode(&have); err != nil {
			t.Error(err)
		}
		select {
		case asked <- have:
		case <-r.Context().Done():
			return
		}
		select {
		case to := <-next:
			_ = json.NewEncoder(w).Encode(to) // the client may be gone
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	l := &logs{daemon: &daemonClient{client: srv.Client(), url: srv.URL}}
	l.enabled.Store(new([]string))
	l.faults.Store(new(launch.Faults))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	defer func() {
		cancel()
		<-ended
	}()
	go func() {
		defer close(ended)
		l.follow(ctx)
	}()
	have := <-asked
	for _, to := range wanted {
		if have.Equal(to) {
			t.Fatalf("it has %+v already", have)
		}
		_, changed := l.autoMode.get()
		next <- to
		if have = <-asked; !have.Equal(to) {
			t.Fatalf("it has %+v, want %+v", have, to)
		}
		select {
		case <-changed:
		default:
			t.Errorf("the controllers have not been told %+v", to.AutoMode)
		}
		if got := *l.enabled.Load(); !slices.Equal(got, to.Components) {
			t.Errorf("enabled %q, want %q", got, to.Components)
		}
	}
}

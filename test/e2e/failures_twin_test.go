package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// twinsPlayed reports whether rows are also asked of a twin of the world's account.
func twinsPlayed() bool { return os.Getenv("TWINS") == "1" }

// A twinDaemon is another daemon. The world's daemon plays AWS for it.
type twinDaemon struct {
	data string
	w    *failureWorld
}

// newTwin starts a daemon, which runs until the test ends.
func (w *failureWorld) newTwin(t *testing.T) *twinDaemon {
	t.Helper()
	data, err := os.MkdirTemp("", "dd")
	if err != nil {
		t.Fatal(err)
	}
	d := &twinDaemon{data, w}
	t.Cleanup(func() { // after the rows
		down(testkit.Program(t), data, t.Log)
		if t.Failed() {
			logs(data, t.Log)
		}
		os.RemoveAll(data)
	})
	d.run(t, "up -d --port 0 --warm-spares 0 --quota vcpus=100000")
	return d
}

func (d *twinDaemon) run(t *testing.T, args string) {
	t.Helper()
	f := &failure{w: d.w, dir: d.w.dir}
	t.Log(f.sh(t, "drydock "+args+" --data-dir "+d.data))
}

// A cause is a step that is not as it should be.
type cause struct {
	Step, State string
	Reason      *api.Reason
}

// causes asks `drydock why` of a daemon as the account's root, because a twin has no access keys.
func (f *failure) causes(t *testing.T, data string) []cause {
	t.Helper()
	out, err := f.try(f.w.ctx, "AWS_ACCESS_KEY_ID=000000000000 AWS_SECRET_ACCESS_KEY=test drydock why "+f.Why+f.w.cluster(f)+" --output json --data-dir "+data)
	var e struct {
		Steps   []api.Step
		Unknown []string
	}
	if jsonErr := json.Unmarshal([]byte(out), &e); jsonErr != nil {
		return []cause{{Step: fmt.Sprint(err, out)}}
	}
	var all []cause
	for _, s := range e.Steps {
		if s.State == api.StepFailed || s.State == api.StepWarning {
			all = append(all, cause{s.Name, s.State, s.Reason})
		}
	}
	for _, u := range e.Unknown {
		all = append(all, cause{Step: "unknown: " + u})
	}
	return all
}

// onTwin waits until the twin gives the same causes as the source.
func (f *failure) onTwin(t *testing.T, d *twinDaemon) {
	want := f.causes(t, dataOf(f.w.env))
	var got []cause
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("-source +twin:\n%s", cmp.Diff(want, got))
		}
	})
	f.eventually(t, "the twin's verdict", "true", func(string, error) bool {
		got = f.causes(t, d.data)
		return cmp.Equal(want, got)
	})
}

// dataOf is the data folder in an environment.
func dataOf(env []string) string {
	data := ""
	for _, v := range env {
		if dir, ok := strings.CutPrefix(v, "DRYDOCK_DATA_DIR="); ok {
			data = dir
		}
	}
	return data
}

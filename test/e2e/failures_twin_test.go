package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/api"
)

// importTwin starts another daemon, which has a twin of the world's account until the test ends. The world's daemon plays
// AWS.
func (w *failureWorld) importTwin(t *testing.T) {
	t.Helper()
	data, err := os.MkdirTemp("", "dd")
	if err != nil {
		t.Fatal(err)
	}
	w.twin = data
	f := &failure{w: w, dir: w.dir}
	t.Cleanup(func() { // after the rows
		down("drydock", data, t.Log)
		if t.Failed() {
			logs(data, t.Log)
		}
		os.RemoveAll(data)
	})
	f.sh(t, "drydock up -d --port 0 --warm-spares 0 --quota vcpus=100000 --data-dir "+data)
	t.Log(f.sh(t, "drydock import --region us-east-1 --replace --data-dir "+data))
}

// A cause is a step that is not as it should be.
type cause struct {
	Step, State string
	Reason      *api.Reason
}

// causes asks `drydock why` of a daemon. Fixes are compared without what was tried to find them.
func (f *failure) causes(t *testing.T, data string) []cause {
	t.Helper()
	out, err := f.try(f.w.ctx, "drydock why "+f.Why+f.w.cluster(f)+" --output json --data-dir "+data)
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
func (f *failure) onTwin(t *testing.T) {
	want := f.causes(t, dataOf(f.w.env))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("-source +twin:\n%s", cmp.Diff(want, f.causes(t, f.w.twin)))
		}
	})
	f.eventually(t, "the twin's verdict", "true", func(string, error) bool { return cmp.Equal(want, f.causes(t, f.w.twin)) })
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

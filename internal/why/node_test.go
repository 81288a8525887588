package why

import (
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/node"
)

// A node that was Ready is out of touch once a step fails that it had taken, and is
// not because a script failed before.
func TestOutOfTouch(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ready := api.Step{Name: node.StepReady, State: api.StepOK, Evidence: "node n1", Time: at}
	for name, tt := range map[string]struct {
		before api.Step
		ready  bool
		want   bool
	}{
		"the endpoint fails later": {api.Step{Name: node.StepEndpoint, State: api.StepFailed, Time: at.Add(time.Second)}, true, true},
		"a script failed before":   {api.Step{Name: node.StepScript, State: api.StepFailed, Time: at.Add(-time.Second)}, true, false},
		"it never was Ready":       {api.Step{Name: node.StepEndpoint, State: api.StepFailed, Time: at.Add(time.Second)}, false, false},
		"nothing fails":            {api.Step{Name: node.StepEndpoint, State: api.StepOK, Time: at.Add(time.Second)}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := api.NodeExplanation{Steps: []api.Step{tt.before}}
			if tt.ready {
				e.Steps = append(e.Steps, ready)
			}
			outOfTouch(&e)
			if e.OutOfTouch != tt.want || tt.ready && (e.Steps[1].State == api.StepWarning) != tt.want {
				t.Errorf("got %+v", e)
			}
		})
	}
}

package why

import (
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/node"
)

// A node that was Ready is out of touch once a step fails that it had taken, and is
// not because a script failed before.
func TestOutOfTouch(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	ready := cli.Step{Name: node.StepReady, State: cli.StepOK, Evidence: "node n1", Time: at}
	for name, tt := range map[string]struct {
		before cli.Step
		ready  bool
		want   bool
	}{
		"the endpoint fails later": {cli.Step{Name: node.StepEndpoint, State: cli.StepFailed, Time: at.Add(time.Second)}, true, true},
		"a script failed before":   {cli.Step{Name: node.StepScript, State: cli.StepFailed, Time: at.Add(-time.Second)}, true, false},
		"it never was Ready":       {cli.Step{Name: node.StepEndpoint, State: cli.StepFailed, Time: at.Add(time.Second)}, false, false},
		"nothing fails":            {cli.Step{Name: node.StepEndpoint, State: cli.StepOK, Time: at.Add(time.Second)}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := cli.NodeExplanation{Steps: []cli.Step{tt.before}}
			if tt.ready {
				e.Steps = append(e.Steps, ready)
			}
			outOfTouch(&e)
			if e.OutOfTouch != tt.want || tt.ready && (e.Steps[1].State == cli.StepWarning) != tt.want {
				t.Errorf("got %+v", e)
			}
		})
	}
}

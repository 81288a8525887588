package why

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/service/ssm"
)

// openJournal is a journal of the test's own.
func openJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// noMachines is a world in which nothing runs.
type noMachines struct{}

var _ Machines = noMachines{}

func (noMachines) Instances(_, _ string) []machine.Instance { return nil }

func (noMachines) Instance(string) (machine.Instance, error) {
	return machine.Instance{}, errors.New("it does not run")
}

func (noMachines) Fargate(string) (machine.Instance, bool) { return machine.Instance{}, false }

func (noMachines) FargateNode(_, _, _ string) (machine.Instance, bool) {
	return machine.Instance{}, false
}

func (noMachines) FargateOf(_, _, _ string) []string { return nil }

func (noMachines) FargatePod(_, _, _ string, _ types.UID) (m fargate.PodMachine, ok bool) {
	return m, false
}

func (noMachines) Info(string) (node.Info, bool) { return node.Info{}, false }

func (noMachines) PodSteps(_, _, _ string) []node.Step { return nil }

func (noMachines) TryPull(context.Context, string, string) error { return nil }

func (noMachines) Machine(string) (machine.Machine, bool) { return nil, false }

func (noMachines) Unit(_, _ string) (active, boots bool) { return false, false }

func (noMachines) Identity(context.Context, machine.Instance) (awsapi.Principal, error) {
	return awsapi.Principal{}, errors.New("it does not run")
}

func (noMachines) Connect(context.Context, machine.Instance, string, int) error { return nil }

func (noMachines) Call(context.Context, machine.Instance, node.Call) error { return nil }

func (noMachines) AgentVersion(string) string { return "" }

func (noMachines) Agent(context.Context, string, ssm.Job) error { return errors.New("it does not run") }

func (noMachines) Permit(context.Context, machine.Instance, awsapi.Principal, []node.Call) ([]advice.Fix, []*node.Decision) {
	return nil, nil
}

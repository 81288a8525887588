package why

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/ec2"
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

func (noMachines) Instances(_, _ string) []ec2.Machine { return nil }

func (noMachines) Instance(string) (ec2.Machine, error) {
	return ec2.Machine{}, errors.New("it does not run")
}

func (noMachines) Fargate(string) (node.Instance, bool) { return node.Instance{}, false }

func (noMachines) FargateNode(_, _, _ string) (node.Instance, bool) { return node.Instance{}, false }

func (noMachines) FargatePod(_, _, _ string, _ types.UID) (id, roleARN string, ok bool) {
	return "", "", false
}

func (noMachines) Info(string) (node.Info, bool) { return node.Info{}, false }

func (noMachines) PodSteps(_, _, _ string) []node.Step { return nil }

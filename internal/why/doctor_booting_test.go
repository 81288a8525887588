package why

import (
	"context"
	"testing"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/node"
)

// twoInstances are running, as EC2 says.
type twoInstances struct{ EC2 }

func (twoInstances) DescribeInstances(context.Context, *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error) {
	one, two := "i-1", "i-2"
	return &awsec2.DescribeInstancesOutput{Reservations: []ec2types.Reservation{{Instances: []ec2types.Instance{{InstanceId: &one}, {InstanceId: &two}}}}}, nil
}

type machinesOf struct {
	Machines
	phases map[string]node.Phase
	broken string // an instance that cannot boot
}

func (m machinesOf) Info(id string) (node.Info, bool) {
	p, ok := m.phases[id]
	info := node.Info{Phase: p}
	if id == m.broken {
		info.Problem = "it cannot read its metadata"
	}
	return info, ok
}

// A diagnosis of a twin waits until all its instances have been started and have run their user data. An account of one's own is looked at as it is.
func TestDiagnosisWaitsForInstancesOfTwins(t *testing.T) {
	for _, tt := range []struct {
		name   string
		phases map[string]node.Phase
		broken string
		twin   bool
		want   bool
	}{
		{"not started yet", nil, "", true, true},
		{"one is on", map[string]node.Phase{"i-1": node.PhaseReady}, "", true, true},
		{"one boots", map[string]node.Phase{"i-1": node.PhaseReady, "i-2": node.PhaseBooting}, "", true, true},
		{"one cannot boot", map[string]node.Phase{"i-1": node.PhaseReady, "i-2": node.PhaseBooting}, "i-2", true, false},
		{"one is not a node, the other joins", map[string]node.Phase{"i-1": node.PhaseRunning, "i-2": node.PhaseJoining}, "", true, false},
		{"of one's own", nil, "", false, false},
	} {
		x := New(Config{EC2: twoInstances{}, Machines: machinesOf{phases: tt.phases, broken: tt.broken}, IsTwin: func(string) bool { return tt.twin }})
		if got, err := x.booting(t.Context(), "111122223333"); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
}

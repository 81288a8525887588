package cli

import (
	"strings"
	"testing"
)

func TestSupports(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string // in standard output, or in standard error if that is empty
	}{
		{"supports", 0, "ec2              EC2              1         1        1\n"},
		{"supports ec2", 0, "EC2: 1 operations are handled, 1 partly, 1 not\n\n  ✘ CreateTransitGateway: it routes nothing\n  ✔ CreateVpc\n  · RunInstances: without KernelId, Placement.HostId; without these values: dedicated hosts\n"},
		{"supports EC2 CreateTransitGateway", 1, "✘ ec2 CreateTransitGateway is not handled: every request is refused with 501 NotImplemented\nit routes nothing\n"},
		{"supports ec2 create-vpc", 0, "✔ ec2 CreateVpc is handled, with all members\n"},
		{"supports ec2 RunInstances", 0, "  ✘ Placement.HostId\n  ✘ these values: dedicated hosts\n"},
		{"supports ec2 RunInstances --output json", 0, `"state": "partly"`},
		{"supports ec2 CreateTransitGateway --output json", 1, `"state": "not"`},
		{"supports --output json", 0, `"service": "service-quotas"`},
		{"supports servicequota", 2, "Try: drydock supports service-quotas\n"},
		{"supports braket", 2, "Try: drydock supports\n"},
		{"supports ec2 create-vpcs", 2, "EC2 has no operation \"create-vpcs\"\nTry: drydock supports ec2 CreateVpc\n"},
		{"supports ec2 Dance", 2, "Try: drydock supports ec2\n"},
		{"__complete supports s", 0, "service-quotas\n:4\n"},
		{"__complete supports ec2 create", 0, "CreateTransitGateway\nCreateVpc\n:4\n"},
		{"__complete supports ec2 CreateVpc x", 0, ":4\n"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, stderr := run(t, t.TempDir(), strings.Fields(tt.args)...)
			said := stdout
			if said == "" {
				said = stderr
			}
			if code != tt.code || !strings.Contains(said, tt.want) {
				t.Errorf("exit code %d, want %d\n%s\nwant in it\n%s", code, tt.code, said, tt.want)
			}
		})
	}
}

package why

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/iam"
)

// Removing a fault is not enough if there is another of its kind, and no fix at all if the fault is gone.
func TestFaultsAreTried(t *testing.T) {
	const account, region = "000000000000", "us-east-1"
	isolate := func(id string) fault.Fault {
		return fault.Fault{ID: id, Account: account, Region: region, Kind: fault.IMDS, Instance: "i-1", Since: time.Unix(1, 0)}
	}
	set := fault.NewSet(fault.Config{})
	x := New(Config{Faults: set})
	set.Replace([]fault.Fault{isolate("F-1")})
	if got := x.faultFixes(account, region, "F-1"); len(got) != 1 || !got[0].Proven {
		t.Errorf("the only one: %+v", got)
	}
	set.Replace([]fault.Fault{isolate("F-1"), isolate("F-2")})
	if got := x.faultFixes(account, region, "F-1"); len(got) != 1 || got[0].Proven || !strings.Contains(got[0].Sketch, "fault clear F-2") {
		t.Errorf("one of two: %+v", got)
	}
	if got := x.faultFixes(account, region, "F-3"); len(got) > 0 {
		t.Errorf("one that is gone: %+v", got)
	}
}

// A quota is judged as EC2 counts it.
func TestQuotaOfVCPUs(t *testing.T) {
	n := vcpuNeed{use: ec2.VCPUUse{Code: "L-1", Limit: 10, Running: 4, Each: 4}, missing: 3}
	changes, commands := n.raise("us-east-1")
	if len(changes) != 1 || changes[0].Value != "16" || len(commands) != 1 {
		t.Fatalf("%+v %q", changes, commands)
	}
	if err := n.fits(changes); err != nil {
		t.Error(err)
	}
	changes[0].Value = "15"
	if err := n.fits(changes); err == nil {
		t.Error("15 are enough")
	}
	if n.missing = 1; n.fits(nil) != nil {
		t.Error("one more does not fit")
	}
	if changes, _ := n.raise("us-east-1"); changes != nil {
		t.Errorf("it is raised for nothing: %+v", changes)
	}
}

// denyingRole returns a role that no service may assume.
type denyingRole struct{ IAM }

func (denyingRole) RoleByARN(context.Context, string) (iam.Role, error) {
	return iam.Role{Trust: `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"sts:AssumeRole"}]}`}, nil
}

// A statement that allows a service does not fix a trust policy that denies it.
func TestTrustIsTried(t *testing.T) {
	x := New(Config{IAM: denyingRole{}})
	if got := x.trusting("arn:aws:iam::000000000000:role/node", "ec2.amazonaws.com"); len(got) != 1 || got[0].Proven {
		t.Errorf("%+v", got)
	}
	x = New(Config{IAM: anyRole{}})
	if got := x.trusting("arn:aws:iam::000000000000:role/node", "ec2.amazonaws.com"); len(got) != 1 || !got[0].Proven || got[0].Changes[0].Kind != advice.AddStatement {
		t.Errorf("%+v", got)
	}
}

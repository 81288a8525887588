package managedpolicies_test

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/managedpolicies"
	"github.com/drydock-dev/drydock/internal/policy"
)

func TestEveryPolicyParses(t *testing.T) {
	all := managedpolicies.All()
	if len(all) < 1485 {
		t.Errorf("%d policies, want the 1485 of the reference data", len(all))
	}
	for _, p := range all {
		if _, err := policy.Parse(policy.Identity, p.Document); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if p.Created.IsZero() || p.Updated.IsZero() || p.VersionID == "" || len(p.ID) != 21 {
			t.Errorf("%s: incomplete: %+v", p.Name, p)
		}
	}
}

func TestGetFindsByARN(t *testing.T) {
	p, ok := managedpolicies.Get("arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy")
	if !ok || p.Name != "AmazonEBSCSIDriverPolicy" || p.Path != "/service-role/" {
		t.Errorf("got %+v, %v", p, ok)
	}
	if _, ok := managedpolicies.Get("arn:aws:iam::aws:policy/AmazonEBSCSIDriverPolicy"); ok {
		t.Error("found without its path")
	}
}

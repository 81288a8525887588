package advice

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

// TestCosts checks that a change describes its cost and that a broader change costs more.
func TestCosts(t *testing.T) {
	fix := func(changes ...Change) Fix {
		return Try(func([]Change) error { return nil }, changes, "command")[0]
	}
	attach := func(policy string) Fix {
		return fix(Change{Kind: AttachPolicy, Resource: "arn:aws:iam::000000000000:role/node", Value: "arn:aws:iam::aws:policy/" + policy})
	}
	statement := func(s string) Fix {
		return fix(Change{Kind: AddStatement, Resource: "arn:aws:iam::000000000000:role/node", Value: s})
	}
	for _, tt := range []struct {
		less, more Fix
		says       string // of less
	}{
		{attach("AmazonEC2ContainerRegistryReadOnly"), attach("AmazonEC2ContainerRegistryFullAccess"), "node may do what AmazonEC2ContainerRegistryReadOnly allows"},
		{attach("ReadOnlyAccess"), attach("AdministratorAccess"), "node may do what ReadOnlyAccess allows"},
		{
			statement(`{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/k"}`), statement(`{"Effect":"Allow","Action":"s3:*","Resource":"*"}`),
			"role/node: s3:GetObject on b/k",
		},
		{
			statement(`{"Effect":"Allow","Principal":"*","Action":"sts:AssumeRole","Condition":{"StringEquals":{"aws:PrincipalOrgID":"o-1"}}}`),
			statement(`{"Effect":"Allow","Principal":"*","Action":"sts:AssumeRole"}`), "sts:AssumeRole under conditions",
		},
		{fix(Change{Kind: RaiseQuota, Resource: "L-1", Value: "9"}), attach("AmazonEKS_CNI_Policy"), "no privilege, no reach"},
		{
			fix(Change{Kind: AddRule, Resource: "sg-1", Rules: []reach.Rule{{Protocol: reach.TCP, Ports: reach.PortRange{From: 443, To: 443}, Group: "sg-2"}}, Cost: reaches(costGroup)}),
			fix(Change{Kind: AddRule, Resource: "sg-1", Rules: []reach.Rule{{Protocol: reach.TCP, Ports: reach.PortRange{From: 443, To: 443}, CIDR: everywhere}}, Cost: reaches(costWorldIn)}),
			"privilege 0, reach 1: sg-1 lets in sg-2, tcp 443",
		},
	} {
		if less, more := tt.less.Cost, tt.more.Cost; less.total() >= more.total() || !strings.Contains(less.String(), tt.says) {
			t.Errorf("%s (%d) should cost less than %s (%d)", less, less.total(), more, more.total())
		}
		sketch := Sketch("fill it in")
		if got := Rank([]Fix{sketch, tt.more, tt.less}); got[0].Cost != tt.less.Cost || got[2].Sketch == "" {
			t.Errorf("%s is not ranked first: %+v", tt.less.Cost, got)
		}
	}
	if text := Text("", []Fix{attach("AmazonEKS_CNI_Policy")}); !strings.Contains(text, "\n     cost: privilege ") {
		t.Errorf("%q does not say what it costs", text)
	}
}

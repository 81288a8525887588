package why

import (
	"context"
	"slices"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/failures"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/iam"
)

// Every row of docs/failures is on the page of its cause, and every cause has a row or a test.
func TestTableOfCauses(t *testing.T) {
	played := map[string]failures.Failure{}
	for _, f := range failures.All() {
		played[f.ID] = f
	}
	rows := map[string][]string{}
	for _, c := range table {
		reason := "because of " + c.by + ", " + c.code
		rows[reason] = append(rows[reason], c.rows...)
		if len(c.rows) == 0 && c.tests == "" {
			t.Errorf("%s: no row of internal/failures plays it, and no test is named", reason)
		}
		if (c.text == nil) != (c.component == nil) || c.text != nil && c.propose == nil {
			t.Errorf("%s: what is said, about what, and what is proposed belong together", reason)
		}
		for _, id := range c.rows {
			if _, ok := played[id]; !ok {
				t.Errorf("%s: there is no row %s", reason, id)
			}
		}
	}
	for id, f := range played {
		for _, v := range f.Verdict {
			words := strings.SplitN(v, ", ", 3)
			if !strings.HasPrefix(v, "because of ") || len(words) < 2 || words[1] == "" {
				continue
			}
			if reason := words[0] + ", " + words[1]; !slices.Contains(rows[reason], id) {
				t.Errorf("%s: the row %s is not on the page of its cause", reason, id)
			}
		}
	}
}

func TestHint(t *testing.T) {
	e := &api.NodeExplanation{Instance: "i-1", Region: "us-east-1", Cluster: "dev", Role: "arn:aws:iam::000000000000:role/node"}
	withProfile := &machine.Instance{ID: "i-1", ProfileARN: "p", RoleARN: e.Role, SubnetID: "subnet-1", Image: images.Image{Family: images.AL2}, UserData: []byte("#!/bin/bash\n/etc/eks/bootstrap.sh dev\n")}
	bare := *withProfile
	bare.ProfileARN = ""
	al2023 := *withProfile
	al2023.Image.Family = images.AL2023
	x := New(Config{EC2: noEC2{}, EKS: closed{host: "dev.example"}, IAM: anyRole{}, PlaneAt: func(string) (planeID, cluster string, ok bool) { return "p-1", "dev", true }})
	for _, tt := range []struct {
		name, step, failed string // failed is data; for register it is Kubernetes' text
		machine            *machine.Instance
		code               string // "" for no hint
	}{
		{"metadata off", node.StepMetadata, "403 Forbidden", withProfile, "MetadataOff"},
		{"a script", node.StepScript, "exit status 1", withProfile, "ScriptFailed"},
		{"a script of a machine that is gone", node.StepScript, "exit status 1", nil, "ScriptFailed"},
		{"a command that is not there", node.StepScript, "UnknownCommand", withProfile, "UnknownCommand"},
		{"bootstrap.sh on AL2023", node.StepScript, "exit status 1", &al2023, "BootstrapRemoved"},
		{"may not describe", node.StepDescribe, "AccessDeniedException", withProfile, "AccessDeniedException"},
		{"no such cluster", node.StepDescribe, "ResourceNotFoundException", withProfile, "NoSuchCluster"},
		{"user data", node.StepUserData, "yaml: line 3", withProfile, "UserData"},
		{"no such name", node.StepDNS, node.CauseNoSuchHost, withProfile, "NoSuchEndpoint"},
		{"another authority", node.StepEndpoint, node.CauseWrongAuthority, withProfile, "WrongAuthority"},
		{"a time-out has its decision elsewhere", node.StepEndpoint, "", withProfile, ""},
		{"another username", node.StepRegister, `nodes "ip-1" is forbidden: node "i-1" is not allowed to modify node "ip-1"`, withProfile, "Forbidden"},
		{"no groups", node.StepRegister, `nodes is forbidden: User "system:node:ip-1" cannot create resource "nodes"`, withProfile, "Forbidden"},
		{"another type of entry", node.StepRegister, `nodes is forbidden: User "arn:aws:sts::1:assumed-role/r/i-1" cannot create resource "nodes"`, withProfile, "Forbidden"},
		{"another refusal", node.StepRegister, "the server is on fire", withProfile, ""},
		{"a full subnet", node.StepNetwork, "InsufficientFreeAddressesInSubnet", withProfile, "InsufficientFreeAddressesInSubnet"},
		{"no profile", node.StepName, node.CauseNoProfile, &bare, "NoInstanceProfile"},
		{"no trust", node.StepName, node.CauseNotTrusted, withProfile, "AssumeRoleUnauthorizedAccess"},
		{"no word", node.StepName, "", withProfile, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			why := x.hint(e, tt.machine, &node.Step{Name: tt.step, Evidence: tt.failed, Cause: tt.failed})
			switch {
			case why == nil && tt.code != "":
				t.Errorf("no hint, want %s", tt.code)
			case why != nil && (why.Code != tt.code || why.Text == "" || len(why.Fixes) == 0):
				t.Errorf("%+v, want %s", why, tt.code)
			}
		})
	}
}

func (noEC2) EndpointPolicy(context.Context, string, string, string) (document string, ok bool) {
	return "", false
}

// anyRole returns a role for every ARN. The role trusts another service.
type anyRole struct{ IAM }

func (anyRole) RoleByARN(context.Context, string) (iam.Role, error) {
	return iam.Role{Trust: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ecs.amazonaws.com"},"Action":"sts:AssumeRole"}]}`}, nil
}

func (anyRole) PoliciesOf(awsapi.Principal) (out policy.Policies, root bool) { return out, false }

// The fix that lets a service assume a role keeps the trust in others.
func TestTrustIsAdded(t *testing.T) {
	x := New(Config{IAM: anyRole{}})
	got := x.trusting("arn:aws:iam::000000000000:role/node", "ec2.amazonaws.com")
	if len(got) != 1 || !strings.Contains(got[0].Shell(), `"ecs.amazonaws.com"`) || !strings.Contains(got[0].Shell(), `"ec2.amazonaws.com"`) {
		t.Errorf("%+v", got)
	}
	if got := x.trusting("arn:aws:iam::000000000000:role/node", "ecs.amazonaws.com"); len(got) > 0 {
		t.Errorf("it is trusted already: %+v", got)
	}
}

// noEC2 has no instances.
type noEC2 struct{ EC2 }

func (noEC2) VCPUUse(context.Context, string, string, string, bool) (ec2.VCPUUse, bool) {
	return ec2.VCPUUse{}, false
}

func (noEC2) InstanceByID(_, _, _ string) (ec2types.Instance, bool) {
	return ec2types.Instance{}, false
}

package why

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

func TestHint(t *testing.T) {
	e := &api.NodeExplanation{Instance: "i-1", Region: "us-east-1", Cluster: "dev", Role: "arn:aws:iam::000000000000:role/node"}
	withProfile := &machine.Instance{ID: "i-1", ProfileARN: "p", RoleARN: e.Role, SubnetID: "subnet-1", Image: images.Image{Family: images.AL2}, UserData: []byte("#!/bin/bash\n/etc/eks/bootstrap.sh dev\n")}
	bare := *withProfile
	bare.ProfileARN = ""
	al2023 := *withProfile
	al2023.Image.Family = images.AL2023
	for _, tt := range []struct {
		name, step, evidence string
		machine              *machine.Instance
		code                 string // "" for no hint
	}{
		{"metadata off", node.StepMetadata, "403 Forbidden", withProfile, "MetadataOff"},
		{"a script", node.StepScript, "exit status 1", withProfile, "ScriptFailed"},
		{"a script of a machine that is gone", node.StepScript, "exit status 1", nil, "ScriptFailed"},
		{"a command that is not there", node.StepScript, "commands that a simulated machine does not have: yumm", withProfile, "UnknownCommand"},
		{"bootstrap.sh on AL2023", node.StepScript, "exit status 1", &al2023, "BootstrapRemoved"},
		{"may not describe", node.StepDescribe, "An error occurred (AccessDeniedException)", withProfile, "AccessDeniedException"},
		{"no such cluster", node.StepDescribe, "An error occurred (ResourceNotFoundException)", withProfile, "NoSuchCluster"},
		{"user data", node.StepUserData, "yaml: line 3", withProfile, "UserData"},
		{"no such name", node.StepDNS, "lookup x: no such host", withProfile, "NoSuchEndpoint"},
		{"another authority", node.StepEndpoint, "x509: certificate signed by unknown authority", withProfile, "WrongAuthority"},
		{"a time-out has its decision elsewhere", node.StepEndpoint, "i/o timeout", withProfile, ""},
		{"another username", node.StepRegister, `nodes "ip-1" is forbidden: node "i-1" is not allowed to modify node "ip-1"`, withProfile, "Forbidden"},
		{"no groups", node.StepRegister, `nodes is forbidden: User "system:node:ip-1" cannot create resource "nodes"`, withProfile, "Forbidden"},
		{"another type of entry", node.StepRegister, `nodes is forbidden: User "arn:aws:sts::1:assumed-role/r/i-1" cannot create resource "nodes"`, withProfile, "Forbidden"},
		{"another refusal", node.StepRegister, "the server is on fire", withProfile, ""},
		{"a full subnet", node.StepNetwork, "the subnet has no free addresses", withProfile, "InsufficientFreeAddressesInSubnet"},
		{"no profile", node.StepName, "get credentials: instance i-1 has no instance profile", &bare, "NoInstanceProfile"},
		{"no trust", node.StepName, "get credentials: EC2 cannot assume the role node", withProfile, "AssumeRoleUnauthorizedAccess"},
		{"no word", node.StepName, "", withProfile, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			why := hint(e, tt.machine, &node.Step{Name: tt.step, Evidence: tt.evidence})
			switch {
			case why == nil && tt.code != "":
				t.Errorf("no hint, want %s", tt.code)
			case why != nil && (why.Code != tt.code || why.Text == "" || len(why.Fixes) == 0):
				t.Errorf("%+v, want %s", why, tt.code)
			}
		})
	}
}

package authz

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
)

// TestOverlay: every row has a source and names actions and resource types that the
// reference knows.
func TestOverlay(t *testing.T) {
	known := func(action string) *Reference {
		_, ref, ok := ActionOf(action)
		if !ok {
			t.Errorf("the reference has no action %s", action)
		}
		return ref
	}
	for op, row := range targeted {
		ref := known(actionName(op))
		if row.source == "" {
			t.Errorf("%s has no source", op)
		}
		for spec := range strings.FieldsSeq(row.targets) {
			kind, _, _ := strings.Cut(spec, "=")
			if kind = strings.TrimSuffix(kind, "?"); ref != nil && ref.Types[kind] == nil {
				t.Errorf("%s: the reference has no resource type %s", op, kind)
			}
		}
	}
	for action := range unnamed {
		if act, _, ok := ActionOf(action); !ok || len(act.Types) > 0 {
			t.Errorf("%s: the reference has %+v, want an action without resources", action, act)
		}
	}
	for op, rows := range dependents {
		known(actionName(op))
		for _, d := range rows {
			if ref := known(d.action); d.source == "" || ref != nil && ref.Types[d.kind] == nil {
				t.Errorf("%s: %+v", op, d)
			}
		}
	}
	for prefix, tagger := range taggers {
		if tagger.source == "" && tagger.action("") != "" {
			t.Errorf("the tags of %s have no source", prefix)
		}
	}
	for op, l := range launchers {
		if known(actionName(op)); l.source == "" {
			t.Errorf("%s has no source", op)
		}
	}
	for op, action := range renamed {
		if known(action); op == action {
			t.Errorf("%s is no other name", op)
		}
	}
	for key := range memberKeys {
		prefix, _, _ := strings.Cut(key, ":")
		ref, ok := ReferenceOf(prefix)
		if !ok || ref.Names[key] == "" {
			t.Errorf("the reference has no condition key %s", key)
		}
	}
}

// TestReferenceIsComplete: every line of the embedded reference can be parsed, and what the lines name exists.
func TestReferenceIsComplete(t *testing.T) {
	levels := []string{"Read", "List", "Write", "Tagging", "Permissions management"}
	for prefix, load := range loaders() {
		text, err := data.ReadFile("data/" + prefix + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		ref, lines := load(), 0
		for line := range strings.Lines(string(text)) {
			if key, ok := strings.CutPrefix(line, "K\t"); !ok {
				lines++
			} else if f := strings.Fields(key); ref.Names[strings.ToLower(f[1])] == "" { // AWS spells one in two ways
				t.Errorf("%s: the condition key %s is lost", prefix, f[1])
			}
		}
		kept := len(ref.Types) + len(ref.Actions)
		for name, act := range ref.Actions {
			kept += len(act.Types)
			if !slices.Contains(levels, act.Access) || name != strings.ToLower(act.Name) {
				t.Errorf("%s:%s: access level %q", prefix, name, act.Access)
			}
			for _, on := range act.Types {
				if ref.Types[on.Name] == nil {
					t.Errorf("%s:%s touches %s, which the reference does not have", prefix, name, on.Name)
				}
			}
		}
		for name, typ := range ref.Types {
			if !strings.HasPrefix(typ.ARN, "arn:") {
				t.Errorf("%s:%s has the ARN %q", prefix, name, typ.ARN)
			}
		}
		if kept != lines || len(ref.Actions) == 0 {
			t.Errorf("%s: %d lines make %d records", prefix, lines, kept)
		}
	}
}

// TestAlternatives: a request that names a resource in several ways is checked on all that it names, whichever one
// its handler uses.
func TestAlternatives(t *testing.T) {
	for op, in := range map[string]any{
		"ec2:AuthorizeSecurityGroupIngress": &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: aws.String("a"), GroupName: aws.String("b")},
		"ec2:RevokeSecurityGroupIngress":    &awsec2.RevokeSecurityGroupIngressInput{GroupId: aws.String("a"), GroupName: aws.String("b")},
		"ec2:ReleaseAddress":                &awsec2.ReleaseAddressInput{AllocationId: aws.String("a"), PublicIp: aws.String("b")},
		"ec2:AssociateAddress":              &awsec2.AssociateAddressInput{AllocationId: aws.String("a"), PublicIp: aws.String("b")},
		"ec2:DisassociateAddress":           &awsec2.DisassociateAddressInput{AssociationId: aws.String("a"), PublicIp: aws.String("b")},
		"ec2:DeleteLaunchTemplate":          &awsec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String("a"), LaunchTemplateName: aws.String("b")},
	} {
		for _, planned := range newPlan(op, in).types {
			if ids, complete := planned.ids(in); !slices.Equal(ids, []string{"a", "b"}) && (planned.required || complete) {
				t.Errorf("%s is checked on %s %q", op, planned.name, ids)
			}
		}
	}
}

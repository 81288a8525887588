package twin

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

func TestCompare(t *testing.T) {
	of := func(pages ...string) *recording.Recording {
		r := &recording.Recording{}
		for _, p := range pages {
			if len(r.Answers) == 0 {
				r.Answers = []recording.Answer{{Service: "ec2", Operation: "DescribeSecurityGroups", Input: json.RawMessage(`{}`)}}
			}
			r.Answers[0].Pages = append(r.Answers[0].Pages, json.RawMessage(p))
		}
		return r
	}
	twin := of(`{"SecurityGroups":[{"GroupId":"sg-1","IpPermissions":[{"FromPort":22}],"Tags":[{"Key":"a","Value":"1"}]}],"NextToken":"x"}`, `{"SecurityGroups":[{"GroupId":"sg-2"}]}`)
	source := of(`{"SecurityGroups":[{"GroupId":"sg-3"},{"GroupId":"sg-1","IpPermissions":[{"FromPort":443}],"Tags":[{"Key":"a","Value":"2"}],"Description":""}]}`)
	got, err := Compare(twin, source)
	if err != nil {
		t.Fatal(err)
	}
	want := []Difference{
		{"ec2:DescribeSecurityGroups", "SecurityGroups[sg-1].IpPermissions", `[{"FromPort":22}]`, `[{"FromPort":443}]`},
		{"ec2:DescribeSecurityGroups", "SecurityGroups[sg-1].Tags[a].Value", `"1"`, `"2"`},
		{"ec2:DescribeSecurityGroups", "SecurityGroups[sg-2]", `{"GroupId":"sg-2"}`, ""},
		{"ec2:DescribeSecurityGroups", "SecurityGroups[sg-3]", "", `{"GroupId":"sg-3"}`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	vpcs := func(cidr string) *recording.Recording {
		return of(`{"Vpcs":[{"VpcId":"vpc-1","DhcpOptionsId":"dopt-1","CidrBlock":"` + cidr + `"},{"VpcId":"vpc-2","DhcpOptionsId":"dopt-1"}]}`) // AWS gives all the same options
	}
	if got, err := Compare(vpcs("10.0.0.0/16"), vpcs("10.1.0.0/16")); err != nil || len(got) != 1 || got[0].Path != "Vpcs[vpc-1].CidrBlock" {
		t.Errorf("got %v, %v", got, err)
	}
	policies := func(arns ...string) *recording.Recording {
		text := ""
		for _, a := range arns {
			text += `,{"Arn":"` + a + `"}`
		}
		return of(`{"Policies":[{"Arn":"arn:aws:iam::111122223333:policy/own"}` + text + `]}`)
	}
	if got, err := Compare(policies("arn:aws:iam::aws:policy/ReadOnlyAccess"), policies("arn:aws:iam::111122223333:policy/other")); err != nil || len(got) != 1 || got[0].Path != "Policies[arn:aws:iam::111122223333:policy/other]" {
		t.Errorf("got %v, %v", got, err)
	}
	if same, err := Compare(twin, twin); err != nil || len(same) > 0 {
		t.Errorf("a recording differs from itself: %v, %v", same, err)
	}
	if denied, err := Compare(twin, &recording.Recording{}); err != nil || len(denied) > 0 {
		t.Errorf("what was not read differs: %v, %v", denied, err)
	}
}

// Kubernetes objects differ by what was changed in them, and by those that only one side has.
func TestCompareObjects(t *testing.T) {
	web := func(image string) map[string]any {
		return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": image}}}}
	}
	q := recording.KubernetesList{Cluster: "c", Group: "apps", Version: "v1", Resource: "deployments"}
	got := CompareObjects(q, map[string]map[string]any{"shop/web": web("a"), "shop/extra": web("a"), "shop/same": web("a")}, map[string]map[string]any{"shop/web": web("b"), "shop/same": web("a"), "shop/other": web("a")})
	one := text(web("a"))
	if diff := cmp.Diff([]Difference{
		{"kubernetes:deployments.apps", "c[shop/extra]", one, ""},
		{"kubernetes:deployments.apps", "c[shop/other]", "", one},
		{"kubernetes:deployments.apps", "c[shop/web].spec.containers[web].image", `"a"`, `"b"`},
	}, got); diff != "" {
		t.Error(diff)
	}
}

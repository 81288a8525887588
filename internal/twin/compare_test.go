package twin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

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
	attached := func(arns string) *recording.Recording {
		return of(`{"RoleDetailList":[{"Arn":"arn:aws:iam::111122223333:role/node","AttachedManagedPolicies":[` + arns + `]}]}`)
	}
	const agent = `{"PolicyName":"AmazonSSMManagedInstanceCore","PolicyArn":"arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"}`
	path := "RoleDetailList[arn:aws:iam::111122223333:role/node].AttachedManagedPolicies[arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore]"
	if got, err := Compare(attached(agent), attached("")); err != nil || len(got) != 1 || got[0].Path != path {
		t.Errorf("an attached policy: %v, %v", got, err)
	}
	if got, err := Compare(attached(""), attached(agent)); err != nil || len(got) != 1 || got[0].Path != path {
		t.Errorf("a detached policy: %v, %v", got, err)
	}
	if same, err := Compare(twin, twin); err != nil || len(same) > 0 {
		t.Errorf("a recording differs from itself: %v, %v", same, err)
	}
	if denied, err := Compare(twin, &recording.Recording{}); err != nil || len(denied) > 0 {
		t.Errorf("what was not read differs: %v, %v", denied, err)
	}
}

// When a recurring action is due next changes by itself. Everything else about scheduled actions and policies is compared.
func TestCompareScheduledActions(t *testing.T) {
	of := func(operation, page string) *recording.Recording {
		return &recording.Recording{Answers: []recording.Answer{{Service: "autoscaling", Operation: operation, Input: json.RawMessage(`{}`), Pages: []json.RawMessage{json.RawMessage(page)}}}}
	}
	actions := func(next, night string, size int) *recording.Recording {
		return of("DescribeScheduledActions", fmt.Sprintf(`{"ScheduledUpdateGroupActions":[{"AutoScalingGroupName":"web","ScheduledActionARN":"a","Recurrence":"0 8 * * *","StartTime":%q,"Time":%q},{"AutoScalingGroupName":"web","ScheduledActionARN":"b","StartTime":%q,"DesiredCapacity":%d}]}`, next, next, night, size))
	}
	got, err := Compare(actions("mon", "once", 1), actions("tue", "later", 2))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Difference{
		{"autoscaling:DescribeScheduledActions", "ScheduledUpdateGroupActions[b].DesiredCapacity", "1", "2"},
		{"autoscaling:DescribeScheduledActions", "ScheduledUpdateGroupActions[b].StartTime", `"once"`, `"later"`},
	}, got); diff != "" {
		t.Error(diff)
	}
	policies := func(arn string) *recording.Recording {
		return of("DescribePolicies", `{"ScalingPolicies":[{"AutoScalingGroupName":"web","PolicyARN":"a"},{"AutoScalingGroupName":"web","PolicyARN":"`+arn+`"}]}`)
	}
	if got, err := Compare(policies("b"), policies("c")); err != nil || len(got) != 2 || got[0].Path != "ScalingPolicies[b]" || got[1].Path != "ScalingPolicies[c]" {
		t.Errorf("got %v, %v", got, err)
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

// An object of any size makes a short difference.
func TestDifferencesAreShort(t *testing.T) {
	large := func(text string) map[string]map[string]any {
		return map[string]map[string]any{"a": {"data": map[string]any{"text": strings.Repeat(text, 1<<20)}}, text: {"data": strings.Repeat("x", 1<<20)}}
	}
	got := CompareObjects(recording.KubernetesList{Cluster: "c", Version: "v1", Resource: "configmaps"}, large("ä"), large("ö"))
	if len(got) != 3 {
		t.Fatalf("%d differences", len(got))
	}
	for _, d := range got {
		if len(d.Twin)+len(d.Source) > 2*4096 || !utf8.ValidString(d.Twin+d.Source) || !strings.HasSuffix(d.Twin+d.Source, "…") {
			t.Errorf("%s: %d and %d bytes", d.Path, len(d.Twin), len(d.Source))
		}
	}
}

// What Secrets hold is never shown, and the names of members that AWS changes by itself mean nothing in Kubernetes.
func TestCompareSecrets(t *testing.T) {
	secret := func(data string) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]any{"Health": data}}, "data": map[string]any{"password": data}}
	}
	objects := func(data string) map[string]map[string]any {
		return map[string]map[string]any{"shop/a": secret(data), "shop/only-" + data: secret(data)}
	}
	got := CompareObjects(recording.KubernetesList{Cluster: "c", Version: "v1", Resource: "secrets"}, objects("b25l"), objects("dHdv"))
	if diff := cmp.Diff([]Difference{
		{"kubernetes:secrets", "c[shop/a].data.password", "", ""},
		{"kubernetes:secrets", "c[shop/a].metadata.labels.Health", `"b25l"`, `"dHdv"`},
		{"kubernetes:secrets", "c[shop/only-b25l]", `{"data":{"password":""},"metadata":{"labels":{"Health":"b25l"}}}`, ""},
		{"kubernetes:secrets", "c[shop/only-dHdv]", "", `{"data":{"password":""},"metadata":{"labels":{"Health":"dHdv"}}}`},
	}, got); diff != "" {
		t.Error(diff)
	}
	if text := got[0].String(); text != "kubernetes:secrets c[shop/a].data.password: differs" {
		t.Error(text)
	}
	whole := map[string]map[string]any{"a": {"data": map[string]any{"password": "b25l"}}}
	got = CompareObjects(recording.KubernetesList{Cluster: "c", Version: "v1", Resource: "secrets"}, whole, map[string]map[string]any{"a": {}})
	if diff := cmp.Diff([]Difference{{"kubernetes:secrets", "c[a].data", "", ""}}, got); diff != "" {
		t.Error(diff)
	}
}

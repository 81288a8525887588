package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// TestAuthorizationRows: every row with which a service corrects the authorization reference has a source and names
// operations, actions, resource types and condition keys that exist.
func TestAuthorizationRows(t *testing.T) {
	rows := 0
	for _, svc := range operations() {
		found, wrong := checkRows(svc)
		rows += found
		for _, w := range wrong {
			t.Errorf("%s: %s", svc.Name, w)
		}
	}
	if rows < 200 {
		t.Errorf("found %d rows: the test looks in the wrong place", rows)
	}
}

// TestWrongAuthorizationRows: the check above finds a row of each kind that is wrong.
func TestWrongAuthorizationRows(t *testing.T) {
	_, wrong := checkRows(awsapi.Service{Name: "ec2", Authorization: awsapi.Authorization{
		Actions:     map[string]string{"Fly": "RunInstances", "RunInstances": "Fly", "CreateVpc": "CreateVpc"},
		Unnamed:     map[string]string{"Fly": "*", "CreateVpc": "*"},
		Targets:     map[string]awsapi.Targets{"Fly": {Source: "SAR"}, "CreateVpc": {Resources: "plane=Name", Source: "SAR"}, "DeleteVpc": {}},
		Members:     map[string]string{"PlaneId": "Name"},
		Owners:      map[string]string{"plane": "ec2", "vpc": "planes"},
		ARNs:        map[string]func(string) string{"plane": strings.ToLower},
		PassedRoles: map[string][]awsapi.PassedRole{"Fly": {{Member: "Role", Source: "SAR"}}, "CreateVpc": {{Member: "Role", Service: "ec2.amazonaws.com"}}},
		Launches:    map[string]awsapi.Launch{"Fly": {Source: "SAR"}, "RunInstances": {}},
		Tagging:     awsapi.Tagging{Action: "Fly", ByType: map[string]string{"plane": "CreateTags"}, Free: []string{"Land"}},
		KeyMembers:  map[string]string{"plane": "Name"},
		StoredKeys:  "pilot",
		AbsentKeys:  "wings",
	}})
	want := []string{
		"AbsentKeys: no condition key wings", "ARNs: no resource type plane", "Actions: no action Fly", "Actions: no operation Fly", "Actions: CreateVpc has this action anyway",
		"KeyMembers: no condition key plane", "Launches: no operation Fly", "Launches: RunInstances has no source", "Members: no ARN has PlaneId", "Owners: no IAM prefix planes", "Owners: no resource type plane",
		"PassedRoles: no operation Fly", "PassedRoles: CreateVpc has no source", "StoredKeys: no condition key pilot", "Tagging: no action Fly", "Tagging: no operation Land", "Tagging: no resource type plane", "Tagging: no source",
		"Targets: no operation Fly", "Targets: no resource type plane", "Targets: DeleteVpc has no source", "Unnamed: CreateVpc has resources", "Unnamed: no action Fly",
	}
	slices.Sort(want)
	if slices.Sort(wrong); !slices.Equal(wrong, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(wrong, "\n"), strings.Join(want, "\n"))
	}
}

// checkRows returns how many rows a service has, and what is wrong with them.
func checkRows(svc awsapi.Service) (rows int, wrong []string) {
	prefix, a := authz.Prefix(svc.Name), svc.Authorization
	ref, referenced := authz.ReferenceOf(prefix)
	if !referenced {
		ref = &authz.Reference{}
	}
	m, err := model.Get(svc.Name)
	if err != nil {
		return 0, []string{err.Error()}
	}
	where := ""
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, where+": "+fmt.Sprintf(format, args...))
		}
	}
	operation := func(name string) {
		rows++
		expect(m.Operations[name] != nil, "no operation %s", name)
	}
	action := func(name string) *authz.Action {
		act := ref.Actions[strings.ToLower(name)]
		expect(act != nil, "no action %s", name)
		return act
	}
	kind := func(name string) { expect(ref.Types[name] != nil, "no resource type %s", name) }
	key := func(name string) {
		rows++
		expect(ref.Names[prefix+":"+name] != "", "no condition key %s", name)
	}

	where = "Actions"
	for op, name := range a.Actions {
		operation(op)
		action(name)
		expect(op != name, "%s has this action anyway", op)
	}
	where = "Unnamed"
	for name := range a.Unnamed {
		rows++
		act := action(name)
		expect(act == nil || len(act.Types) == 0, "%s has resources", name)
	}
	where = "Targets"
	for op, row := range a.Targets {
		operation(op)
		expect(row.Source != "", "%s has no source", op)
		for spec := range strings.FieldsSeq(row.Resources) {
			name, _, _ := strings.Cut(spec, "=")
			kind(strings.TrimSuffix(name, "?"))
		}
	}
	where = "Members"
	for variable := range a.Members {
		rows++
		expect(slices.ContainsFunc(slices.Collect(maps.Values(ref.Types)), func(rt *authz.ResourceType) bool {
			return strings.Contains(rt.ARN, "${"+variable+"}")
		}), "no ARN has %s", variable)
	}
	where = "Owners"
	for name, owner := range a.Owners {
		rows++
		kind(name)
		_, ok := authz.ReferenceOf(owner)
		expect(ok, "no IAM prefix %s", owner)
	}
	where = "ARNs"
	for name := range a.ARNs {
		rows++
		kind(name)
	}
	where = "PassedRoles"
	for op, roles := range a.PassedRoles {
		operation(op)
		for _, r := range roles {
			expect(r.Source != "", "%s has no source", op)
		}
	}
	where = "Launches"
	for op, l := range a.Launches {
		operation(op)
		expect(l.Source != "", "%s has no source", op)
	}
	where = "Tagging"
	if a.Tagging.Action != "" {
		rows++
		action(a.Tagging.Action)
	}
	for name, act := range a.Tagging.ByType {
		rows++
		kind(name)
		action(act)
	}
	for _, op := range a.Tagging.Free {
		operation(op)
	}
	expect(a.Tagging.Source != "" || a.Tagging.Action == "" && len(a.Tagging.ByType) == 0, "no source")
	where = "KeyMembers"
	for name := range a.KeyMembers {
		key(name)
	}
	where = "StoredKeys"
	for name := range strings.FieldsSeq(a.StoredKeys) {
		key(name)
	}
	where = "AbsentKeys"
	for name := range strings.FieldsSeq(a.AbsentKeys) {
		key(name)
	}
	return rows, wrong
}

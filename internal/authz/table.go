package authz

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// A table holds the rows with which all services correct and complete the reference (awsapi.Authorization), merged
// once. Operations, actions, types and keys have their services' IAM prefixes. It is not changed afterwards.
type table struct {
	actions    map[string]string
	unnamed    map[string]string
	targets    map[string]awsapi.Targets
	members    map[string]string // PREFIX VARIABLE → members
	owners     map[string]string // PREFIX/TYPE → IAM prefix
	arns       map[string]func(string) string
	passed     map[string][]awsapi.PassedRole
	launches   map[string]awsapi.Launch
	tagging    map[string]awsapi.Tagging
	keyMembers map[string]string
	storedKeys map[string]bool
	absentKeys []string
}

func newTable(services []awsapi.Service) *table {
	t := &table{
		actions: map[string]string{}, unnamed: map[string]string{}, targets: map[string]awsapi.Targets{}, members: map[string]string{},
		owners: map[string]string{}, arns: map[string]func(string) string{}, passed: map[string][]awsapi.PassedRole{}, launches: map[string]awsapi.Launch{},
		tagging: map[string]awsapi.Tagging{}, keyMembers: map[string]string{}, storedKeys: map[string]bool{},
	}
	for _, s := range services {
		prefix, rows := Prefix(s.Name), &s.Authorization
		for op, action := range rows.Actions {
			t.actions[prefix+":"+op] = prefix + ":" + action
		}
		add(t.unnamed, prefix+":", rows.Unnamed)
		add(t.targets, prefix+":", rows.Targets)
		add(t.members, prefix+" ", rows.Members)
		add(t.owners, prefix+"/", rows.Owners)
		add(t.arns, prefix+"/", rows.ARNs)
		add(t.passed, prefix+":", rows.PassedRoles)
		add(t.launches, prefix+":", rows.Launches)
		add(t.keyMembers, prefix+":", rows.KeyMembers)
		if rows.Tagging.Source != "" {
			t.tagging[prefix] = rows.Tagging
		}
		for key := range strings.FieldsSeq(rows.StoredKeys) {
			t.storedKeys[prefix+":"+key] = true
		}
		for key := range strings.FieldsSeq(rows.AbsentKeys) {
			t.absentKeys = append(t.absentKeys, prefix+":"+key)
		}
	}
	return t
}

func add[Row any](to map[string]Row, prefix string, rows map[string]Row) {
	for name, row := range rows {
		to[prefix+name] = row
	}
}

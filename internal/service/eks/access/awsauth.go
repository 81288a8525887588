package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/yamlsafe"
)

// An AuthMap is a parsed aws-auth ConfigMap. Keys are lower-case ARNs.
// https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html
type AuthMap struct {
	roles, users map[string]Mapping
	accounts     []string
	data         map[string]string // nil if there is no such ConfigMap
	// invalid describes what is wrong with the ConfigMap, or is nil.
	Invalid error
}

// A Mapping is the Kubernetes identity of a principal, before its templates are filled in.
type Mapping struct {
	Username string
	Groups   []string
}

// A roleMapping is an item of mapRoles, in the ConfigMap's spelling.
type roleMapping struct {
	RoleARN  string   `json:"rolearn"`
	Username string   `json:"username"`
	Groups   []string `json:"groups,omitempty"`
}

type userMapping struct {
	UserARN  string   `json:"userarn"`
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// parseAuthMap reads the data of an aws-auth ConfigMap as aws-iam-authenticator
// does: it uses what is valid, even if the rest is not. The error says what is wrong;
// the map can be used in any case.
func parseAuthMap(data map[string]string) (*AuthMap, error) {
	m := &AuthMap{roles: map[string]Mapping{}, users: map[string]Mapping{}, data: data}
	var errs []error
	var roles []roleMapping
	if err := parseYAML(data, "mapRoles", &roles); err != nil {
		errs = append(errs, err)
	}
	for _, r := range roles {
		if r.RoleARN == "" {
			errs = append(errs, errors.New("mapRoles: an item has no rolearn"))
			continue
		}
		m.roles[strings.ToLower(r.RoleARN)] = Mapping{r.Username, r.Groups}
	}
	var users []userMapping
	if err := parseYAML(data, "mapUsers", &users); err != nil {
		errs = append(errs, err)
	}
	for _, u := range users {
		if u.UserARN == "" {
			errs = append(errs, errors.New("mapUsers: an item has no userarn"))
			continue
		}
		m.users[strings.ToLower(u.UserARN)] = Mapping{u.Username, u.Groups}
	}
	if err := parseYAML(data, "mapAccounts", &m.accounts); err != nil {
		m.accounts = nil
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

func parseYAML(data map[string]string, key string, into any) error {
	raw, err := yamlsafe.ToJSON([]byte(data[key]))
	if err == nil {
		err = json.Unmarshal(raw, into) // keeps the items before the invalid one
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// Find returns the mapping of a canonical ARN.
func (m *AuthMap) Find(canonical, account string) (Mapping, bool) {
	if m == nil {
		return Mapping{}, false
	}
	key := strings.ToLower(canonical)
	if to, ok := m.users[key]; ok {
		return to, true
	}
	if to, ok := m.roles[key]; ok {
		return to, true
	}
	if slices.Contains(m.accounts, account) {
		return Mapping{Username: canonical}, true
	}
	return Mapping{}, false
}

// mappedGroups are the groups that aws-auth gives nodes. They differ slightly from those of an
// access entry.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-getting-started.html
func mappedGroups(typ string) []string {
	if typ == TypeFargateLinux {
		return []string{"system:bootstrappers", "system:nodes", "system:node-proxier"}
	}
	return []string{"system:bootstrappers", "system:nodes"}
}

// An UnreadableAuthError reports that the content of aws-auth cannot be parsed.
type UnreadableAuthError struct{ error }

func (e *UnreadableAuthError) Unwrap() error { return e.error }

// withRole adds a node role to the data of an aws-auth ConfigMap, mapped as EKS maps the roles of
// managed node groups and of Fargate. changed is false if the role is mapped already. It does not
// change data that it cannot parse.
func withRole(data map[string]string, roleARN, typ string) (out map[string]string, changed bool, err error) {
	var roles []roleMapping
	if err := parseYAML(data, "mapRoles", &roles); err != nil {
		return data, false, &UnreadableAuthError{err}
	}
	if slices.ContainsFunc(roles, func(r roleMapping) bool { return strings.EqualFold(r.RoleARN, roleARN) }) {
		return data, false, nil
	}
	return putRoles(data, append(roles, roleMapping{
		RoleARN: roleARN, Username: nodeTypes()[typ].username, Groups: mappedGroups(typ),
	}))
}

// MappedAs returns mapRoles with a role mapped to nodes of a type, whatever its mapping was before.
// Other mappings stay. If mapRoles cannot be parsed, it maps no one and is replaced. exists reports
// whether there is a ConfigMap.
func (m *AuthMap) MappedAs(roleARN, typ string) (mapRoles string, exists bool, err error) {
	var roles []roleMapping
	if err := parseYAML(m.data, "mapRoles", &roles); err != nil {
		roles = nil
	}
	roleARN = WithoutPath(roleARN)
	i := slices.IndexFunc(roles, func(r roleMapping) bool { return strings.EqualFold(r.RoleARN, roleARN) })
	if i < 0 {
		roles, i = append(roles, roleMapping{RoleARN: roleARN}), len(roles)
	}
	roles[i].Username = nodeTypes()[typ].username
	for _, g := range mappedGroups(typ) {
		if !slices.Contains(roles[i].Groups, g) {
			roles[i].Groups = append(roles[i].Groups, g)
		}
	}
	data, _, err := putRoles(m.data, roles)
	if err != nil {
		return "", false, err
	}
	proof, err := parseAuthMap(map[string]string{"mapRoles": data["mapRoles"]})
	if err != nil {
		return "", false, err
	}
	if to, ok := proof.Find(roleARN, ""); !ok || !IsNode(to) {
		return "", false, fmt.Errorf("%s would not be a node's role", roleARN)
	}
	return data["mapRoles"], m.data != nil, nil
}

// withoutRole undoes withRole. A Fargate role's mapping that a user has changed stays.
func withoutRole(data map[string]string, roleARN, typ string) (out map[string]string, changed bool, err error) {
	var roles []roleMapping
	if err := parseYAML(data, "mapRoles", &roles); err != nil {
		return data, false, err
	}
	kept := slices.DeleteFunc(slices.Clone(roles), func(r roleMapping) bool {
		return strings.EqualFold(r.RoleARN, roleARN) && (typ != TypeFargateLinux || r.Username == nodeTypes()[typ].username)
	})
	if len(kept) == len(roles) {
		return data, false, nil
	}
	return putRoles(data, kept)
}

func putRoles(data map[string]string, roles []roleMapping) (map[string]string, bool, error) {
	raw, err := yaml.Marshal(roles)
	if err != nil {
		return data, false, err
	}
	out := map[string]string{}
	for k, v := range data {
		out[k] = v
	}
	out["mapRoles"] = string(raw)
	return out, true, nil
}

// RoleName returns the last part of a role's ARN.
func RoleName(roleARN string) string { return roleARN[strings.LastIndexByte(roleARN, '/')+1:] }

// IsNode reports whether a principal mapped so can be a node.
func IsNode(to Mapping) bool {
	return strings.HasPrefix(to.Username, "system:node:") && slices.Contains(to.Groups, "system:nodes")
}

package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
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

// A mappingItem is an item of mapRoles or mapUsers.
type mappingItem struct {
	roleMapping
	UserARN string `json:"userarn"`
}

// parseAuthMap reads the data of an aws-auth ConfigMap as aws-iam-authenticator does: it uses the
// valid entries even if others are invalid. The map can be used even if there is an error.
func parseAuthMap(data map[string]string) (*AuthMap, error) {
	m := &AuthMap{roles: map[string]Mapping{}, users: map[string]Mapping{}, data: data}
	var errs []error
	read := func(key, member string, into map[string]Mapping, arnOf func(mappingItem) string) {
		var items []mappingItem
		if err := parseYAML(data, key, &items); err != nil {
			errs = append(errs, err)
		}
		for _, i := range items {
			if arnOf(i) == "" {
				errs = append(errs, fmt.Errorf("%s: an item has no %s", key, member))
				continue
			}
			into[strings.ToLower(arnOf(i))] = Mapping{i.Username, i.Groups}
		}
	}
	read("mapRoles", "rolearn", m.roles, func(i mappingItem) string { return i.RoleARN })
	read("mapUsers", "userarn", m.users, func(i mappingItem) string { return i.UserARN })
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

// Exists reports whether there is such a ConfigMap.
func (m *AuthMap) Exists() bool { return m != nil && m.data != nil }

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
// Other mappings stay. If the text cannot be parsed as a whole, those that could be parsed stay;
// the others have no effect anyway. The result is parsed again as a check. exists reports whether
// there is a ConfigMap.
func (m *AuthMap) MappedAs(roleARN, typ string) (mapRoles string, exists bool, err error) {
	var roles []roleMapping
	if err := parseYAML(m.data, "mapRoles", &roles); err != nil {
		roles = slices.DeleteFunc(roles, func(r roleMapping) bool { return r.RoleARN == "" })
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
	for who, to := range m.roles {
		if now, ok := proof.roles[who]; who != strings.ToLower(roleARN) && (!ok || now.Username != to.Username || !slices.Equal(now.Groups, to.Groups)) {
			return "", false, fmt.Errorf("%s would lose its mapping", who)
		}
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
	maps.Copy(out, data)
	out["mapRoles"] = string(raw)
	return out, true, nil
}

// RoleName returns the last part of a role's ARN.
func RoleName(roleARN string) string { return roleARN[strings.LastIndexByte(roleARN, '/')+1:] }

// IsNode reports whether a principal with this mapping is authenticated as a node.
func IsNode(to Mapping) bool {
	return strings.HasPrefix(to.Username, "system:node:") && slices.Contains(to.Groups, "system:nodes")
}

const (
	authNamespace = "kube-system"
	authName      = "aws-auth"
	// authWait is how long a login waits for the first read of aws-auth.
	authWait = 5 * time.Second
)

// AuthMap returns the last known aws-auth of a cluster. It is empty if there is no aws-auth.
func (s *Service) AuthMap(ctx context.Context, planeID string) (*AuthMap, error) {
	ses, err := s.Sessions.Get(planeID)
	if err != nil {
		return nil, err
	}
	w := plane.Value(ses, s.watchAuth)
	ctx, cancel := context.WithTimeout(ctx, authWait)
	defer cancel()
	select {
	case <-w.synced:
		return w.current.Load(), nil
	case <-ctx.Done():
		return nil, plane.ErrNoAnswer
	}
}

// An authWatch watches the aws-auth ConfigMap.
type authWatch struct {
	current atomic.Pointer[AuthMap]
	synced  chan struct{}
}

func (s *Service) watchAuth(ses *plane.Session) *authWatch {
	w := &authWatch{synced: make(chan struct{})}
	w.current.Store(&AuthMap{})
	maps := ses.Client.CoreV1().ConfigMaps(authNamespace)
	only := fields.OneTermEqualSelector("metadata.name", authName).String()
	inf := ses.Informer(ses.Context, &corev1.ConfigMap{},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return maps.List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return maps.Watch(ctx, o)
		}, nil)
	set := func(obj any) {
		cm, ok := obj.(*corev1.ConfigMap)
		if !ok || cm.Name != authName {
			return
		}
		m, err := parseAuthMap(cm.Data)
		if m.data == nil {
			m.data = map[string]string{}
		}
		if err != nil {
			s.Log.Info("part of aws-auth is unreadable; the rest is used", "err", err)
		}
		m.Invalid = err
		w.current.Store(m)
	}
	reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, obj any) { set(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if cm, ok := obj.(*corev1.ConfigMap); ok && cm.Name == authName {
				w.current.Store(&AuthMap{})
			}
		},
	})
	if err != nil {
		s.Log.Error("watching aws-auth", "err", err)
		return w
	}
	ses.Go(func() {
		if cache.WaitForCacheSync(ses.Context.Done(), reg.HasSynced) {
			close(w.synced)
		}
	})
	return w
}

// MapNodeRole adds a node role to aws-auth for nodes of a type, creating the ConfigMap if
// necessary.
func MapNodeRole(ctx context.Context, ses *plane.Session, role, typ string) error {
	return editAuth(ctx, ses, func(data map[string]string) (map[string]string, bool, error) {
		return withRole(data, WithoutPath(role), typ)
	})
}

// UnmapNodeRole removes what MapNodeRole added.
func UnmapNodeRole(ctx context.Context, ses *plane.Session, role, typ string) error {
	return editAuth(ctx, ses, func(data map[string]string) (map[string]string, bool, error) {
		return withoutRole(data, WithoutPath(role), typ)
	})
}

// WithoutPath returns a role's ARN without its path, as aws-auth requires.
func WithoutPath(role string) string {
	prefix, _, ok := strings.Cut(role, ":role/")
	if !ok {
		return role
	}
	return prefix + ":role/" + RoleName(role)
}

func editAuth(ctx context.Context, ses *plane.Session, edit func(map[string]string) (map[string]string, bool, error)) error {
	maps := ses.Client.CoreV1().ConfigMaps(authNamespace)
	cm, err := maps.Get(ctx, authName, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: authName, Namespace: authNamespace}}
	} else if err != nil {
		return fmt.Errorf("reading aws-auth: %w", err)
	}
	data, changed, err := edit(cm.Data)
	if err != nil {
		return fmt.Errorf("aws-auth: %w", err)
	}
	if !changed {
		return nil
	}
	cm = cm.DeepCopy()
	cm.Data = data
	if missing {
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	} else {
		_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing aws-auth: %w", err)
	}
	return nil
}

// KnownPrincipals are the principals that a cluster maps. They help to explain why another
// principal is unauthorized.
type KnownPrincipals struct {
	// API and ConfigMap report whether the authentication mode uses access entries and aws-auth.
	API, ConfigMap bool
	// Entries are the ARNs of principals with an access entry.
	Entries []string
	// Gone are those of Entries that were made for a principal that the source of a twin had deleted when it was read.
	Gone []string
	// Mapped are the ARNs in aws-auth, in lower case, as they are compared.
	Mapped []string
	// Invalid describes what is wrong with aws-auth.
	Invalid error
}

// MapRoles returns mapRoles of a cluster's aws-auth with a role added for nodes of a type, and
// reports whether aws-auth exists.
func (s *Service) MapRoles(ctx context.Context, planeID, roleARN, typ string) (mapRoles string, exists bool, err error) {
	auth, err := s.AuthMap(ctx, planeID)
	if err != nil {
		return "", false, err
	}
	return auth.MappedAs(roleARN, typ)
}

// KnownPrincipals returns the principals that the cluster of a control plane maps.
func (s *Service) KnownPrincipals(ctx context.Context, planeID string) (KnownPrincipals, error) {
	key, rec, err := s.ClusterByPlane(planeID)
	if err != nil {
		return KnownPrincipals{}, err
	}
	out := KnownPrincipals{API: rec.UsesAPI(), ConfigMap: rec.UsesConfigMap()}
	if out.API {
		for _, e := range record.AccessEntries.All(s.Store, store.Scope{Account: key.Account, Region: key.Region}) {
			if aws.ToString(e.Value.Entry.ClusterName) != rec.Name() {
				continue
			}
			out.Entries = append(out.Entries, aws.ToString(e.Value.Entry.PrincipalArn))
			if e.Value.PrincipalID == record.DeletedID {
				out.Gone = append(out.Gone, aws.ToString(e.Value.Entry.PrincipalArn))
			}
		}
	}
	if out.ConfigMap {
		auth, err := s.AuthMap(ctx, planeID)
		if err != nil || auth == nil {
			return out, err
		}
		out.Invalid = auth.Invalid
		out.Mapped = append(slices.Sorted(maps.Keys(auth.roles)), slices.Sorted(maps.Keys(auth.users))...)
	}
	return out, nil
}

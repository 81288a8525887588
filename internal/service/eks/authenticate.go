package eks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	authnv1 "k8s.io/api/authentication/v1"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// ErrUnauthenticated says that a token is not good or that its principal has no
// way into the cluster. Its text is for `drydock why`, not for the caller.
var ErrUnauthenticated = errors.New("unauthenticated")

// Authenticate says who a bearer token of the cluster behind planeID stands
// for. Every error means: not authenticated; those that wrap ErrUnauthenticated
// are final for this token and state, others are trouble of ours. Nothing is
// cached but the private DNS names of instances: a verdict changes with the
// access entry, the ConfigMap or the key it rests on, and costs microseconds.
func (s *Service) Authenticate(ctx context.Context, planeID, token string) (authnv1.UserInfo, error) {
	key, rec, err := s.clusterByPlane(planeID)
	if errors.Is(err, errUnknownPlane) {
		return authnv1.UserInfo{}, unauthenticated("%w", err)
	}
	if err != nil {
		return authnv1.UserInfo{}, err
	}
	u, err := parseToken(token, s.clock.Now(), s.cfg.OwnHost)
	if err != nil {
		return authnv1.UserInfo{}, unauthenticated("%w", err)
	}
	// The client signed the header but the URL cannot carry it.
	p, err := s.cfg.VerifyPresigned(ctx, &http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{"X-K8s-Aws-Id": {rec.name()}},
	})
	if err != nil {
		return authnv1.UserInfo{}, unauthenticated("the token's signature is not good for cluster %s: %w", rec.name(), err)
	}
	to, err := s.mapPrincipal(ctx, key, rec, p)
	if err != nil {
		return authnv1.UserInfo{}, err
	}
	return s.userInfo(ctx, key, p, to)
}

// mapPrincipal finds a principal's way into the cluster: its access entry where
// the mode has them, else aws-auth where the mode has that.
// https://docs.aws.amazon.com/eks/latest/userguide/grant-k8s-access.html#authentication-modes
func (s *Service) mapPrincipal(ctx context.Context, key store.Key, rec clusterRecord, p awsapi.Principal) (mapping, error) {
	identity, id := identityOf(p)
	if rec.usesAPI() {
		entry, err := accessEntries.Get(s.store, below(key, identity))
		if err == nil && entry.PrincipalID == id {
			return entryMapping(&entry), nil
		}
		if err == nil && !rec.usesConfigMap() {
			return mapping{}, unauthenticated("the access entry of %s is for an identity of that name that exists no more (%s, now %s): delete and create the entry", identity, entry.PrincipalID, id)
		}
	} else if rec.BootstrapAdmin && rec.Creator == (identityRef{identity, id}) {
		// In this mode the creator is an administrator that no list shows.
		return mapping{Username: "kubernetes-admin", Groups: []string{"system:masters"}}, nil
	}
	if !rec.usesConfigMap() {
		return mapping{}, unauthenticated("%s has no access entry in cluster %s", identity, rec.name())
	}
	auth, err := s.authMap(ctx, rec.Plane.ID)
	if err != nil {
		return mapping{}, fmt.Errorf("reading aws-auth of cluster %s: %w", rec.name(), err)
	}
	canonical := canonicalARN(p.ARN)
	to, ok := auth.find(canonical, p.Account)
	if !ok {
		return mapping{}, unauthenticated("ARN is not mapped: %s has no access entry and is not in aws-auth of cluster %s", canonical, rec.name())
	}
	return to, nil
}

func entryMapping(e *accessEntryRecord) mapping {
	to := mapping{*e.Entry.Username, e.Entry.KubernetesGroups}
	if node, ok := nodeTypes()[*e.Entry.Type]; ok && node.username == *e.Entry.Username {
		// Nodes also bootstrap, which the entry does not show.
		to.Groups = append([]string{"system:bootstrappers"}, to.Groups...)
	}
	return to
}

// userInfo fills in the templates of a mapping.
// https://github.com/kubernetes-sigs/aws-iam-authenticator#full-configuration-format
func (s *Service) userInfo(ctx context.Context, key store.Key, p awsapi.Principal, to mapping) (authnv1.UserInfo, error) {
	id, session, _ := strings.Cut(p.UserID, ":")
	render := func(template string) (string, error) {
		if !strings.Contains(template, "{{") {
			return template, nil
		}
		var dns string
		if strings.Contains(template, "{{EC2PrivateDNSName}}") {
			var err error
			if dns, err = s.privateDNSName(ctx, p.Account, key.Region, session); err != nil {
				return "", err
			}
		}
		return strings.NewReplacer(
			"{{EC2PrivateDNSName}}", dns,
			"{{AccountID}}", p.Account,
			"{{SessionName}}", strings.ReplaceAll(session, "@", "-"),
			"{{SessionNameRaw}}", session,
			"{{AccessKeyID}}", p.AccessKeyID,
		).Replace(template), nil
	}
	username, err := render(to.Username)
	if err != nil {
		return authnv1.UserInfo{}, err
	}
	groups := make([]string, 0, len(to.Groups))
	for _, g := range to.Groups {
		if g, err = render(g); err != nil {
			return authnv1.UserInfo{}, err
		}
		groups = append(groups, g)
	}
	return authnv1.UserInfo{
		Username: username,
		UID:      "aws-iam-authenticator:" + p.Account + ":" + id,
		Groups:   groups,
		Extra: map[string]authnv1.ExtraValue{
			"accessKeyId":  {p.AccessKeyID},
			"arn":          {p.ARN},
			"canonicalArn": {canonicalARN(p.ARN)},
			"principalId":  {id},
			"sessionName":  {session},
			"sigs.k8s.io/aws-iam-authenticator/principalId": {id},
		},
	}, nil
}

// canonicalARN turns a role session's ARN into the role's, without its path:
// STS does not know paths.
func canonicalARN(principal string) string {
	a, err := arn.Parse(principal)
	if err != nil || a.Service != "sts" {
		return principal
	}
	parts := strings.Split(a.Resource, "/")
	if parts[0] != "assumed-role" || len(parts) < 3 {
		return principal
	}
	return arn.IAM(a.Account, "role/"+parts[1])
}

var instanceIDPattern = regexp.MustCompile(`^i-(\w{8}|\w{17})$`)

// nodeNames remembers the private DNS names of instances, which never change.
type nodeNames struct {
	mu     sync.Mutex
	byNode map[string]string
}

const nodeNamesLimit = 20_000

// privateDNSName returns the name of the instance whose role session this is.
func (s *Service) privateDNSName(ctx context.Context, account, region, instanceID string) (string, error) {
	if !instanceIDPattern.MatchString(instanceID) {
		return "", unauthenticated("the session name %q is not an instance ID, which the mapping to {{EC2PrivateDNSName}} needs", instanceID)
	}
	id := account + "/" + region + "/" + instanceID
	s.names.mu.Lock()
	name := s.names.byNode[id]
	s.names.mu.Unlock()
	if name != "" {
		return name, nil
	}
	got, err := s.cfg.Instances.DescribeInstances(s.asService(ctx, account, region), &awsec2.DescribeInstancesInput{InstanceIds: []string{instanceID}})
	if err != nil {
		if strings.HasPrefix(code(err), "InvalidInstanceID") {
			return "", unauthenticated("failed querying private DNS from EC2 API for node %s: %w", instanceID, err)
		}
		return "", err
	}
	for _, r := range got.Reservations {
		for _, i := range r.Instances {
			name = text(i.PrivateDnsName)
		}
	}
	if name == "" {
		return "", unauthenticated("instance %s has no private DNS name", instanceID)
	}
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	if s.names.byNode == nil || len(s.names.byNode) >= nodeNamesLimit {
		s.names.byNode = map[string]string{}
	}
	s.names.byNode[id] = name
	return name, nil
}

func unauthenticated(format string, args ...any) error {
	return &refusal{fmt.Errorf(format, args...)}
}

// A refusal is an ErrUnauthenticated with its reason.
type refusal struct{ reason error }

func (r *refusal) Error() string   { return r.reason.Error() }
func (r *refusal) Unwrap() []error { return []error{ErrUnauthenticated, r.reason} }

var errUnknownPlane = errors.New("belongs to no cluster")

// clusterByPlane returns the cluster that a control plane belongs to.
func (s *Service) clusterByPlane(planeID string) (store.Key, clusterRecord, error) {
	if k, ok := s.sessions.clusterKey(planeID); ok {
		if rec, err := clusters.Get(s.store, k); err == nil && rec.Plane.ID == planeID {
			return k, rec, nil
		}
	}
	all, err := clusters.List(s.store, store.Scope{})
	if err != nil {
		return store.Key{}, clusterRecord{}, err
	}
	for _, i := range all {
		if i.Value.Plane.ID == planeID && planeID != "" {
			s.sessions.setClusterKey(planeID, i.Key)
			return i.Key, i.Value, nil
		}
	}
	return store.Key{}, clusterRecord{}, fmt.Errorf("control plane %s %w", planeID, errUnknownPlane)
}

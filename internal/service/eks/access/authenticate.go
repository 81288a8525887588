package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	authnv1 "k8s.io/api/authentication/v1"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// ErrUnauthenticated means that a token is invalid or that its principal has no access to the
// cluster. Its text is meant for `drydock why`, not for the caller.
var ErrUnauthenticated = errors.New("unauthenticated")

// Authenticate returns the Kubernetes user behind a bearer token for the cluster with planeID. Any
// error means "not authenticated". Errors that wrap ErrUnauthenticated are final for this token in
// the current state; others are internal failures.
//
// Only the private DNS names of instances are cached. Everything else is evaluated each time, which
// costs microseconds, because the result changes with the access entry, the ConfigMap and the
// access key.
func (s *Service) Authenticate(ctx context.Context, planeID, token string) (authnv1.UserInfo, error) {
	key, rec, err := s.ClusterByPlane(planeID)
	if errors.Is(err, base.ErrUnknownPlane) {
		return authnv1.UserInfo{}, unauthenticated(CauseToken, "%w", err)
	}
	if err != nil {
		return authnv1.UserInfo{}, err
	}
	u, err := parseToken(token, s.Clock.Now(), s.OwnHost)
	if err != nil {
		return authnv1.UserInfo{}, unauthenticated(CauseToken, "%w", err)
	}
	// The client signed the header, but a URL cannot carry it.
	p, err := s.VerifyPresigned(ctx, &http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{"X-K8s-Aws-Id": {rec.Name()}},
	})
	if err != nil {
		return authnv1.UserInfo{}, unauthenticated(CauseSignature, "the token's signature is not good for cluster %s: %w", rec.Name(), err)
	}
	to, err := s.MapPrincipal(ctx, key, rec, p)
	if err == nil {
		var user authnv1.UserInfo
		if user, err = s.userInfo(ctx, key, p, to); err == nil {
			return user, nil
		}
	}
	if refused := (*Refusal)(nil); errors.As(err, &refused) {
		refused.principal = p
	}
	return authnv1.UserInfo{}, err
}

// MapPrincipal returns the mapping of a principal: from its access entry if the authentication mode
// uses those, otherwise from aws-auth if the mode uses that.
// https://docs.aws.amazon.com/eks/latest/userguide/grant-k8s-access.html#authentication-modes
func (s *Service) MapPrincipal(ctx context.Context, key store.Key, rec record.Cluster, p awsapi.Principal) (Mapping, error) {
	identity, id := IdentityOf(p)
	var stale error
	if rec.UsesAPI() {
		entry, err := record.AccessEntries.Get(s.Store, key.Below(identity))
		if err == nil && entry.PrincipalID == id {
			return EntryMapping(&entry), nil
		}
		if err == nil {
			stale = unauthenticated(CauseStaleEntry, "the access entry of %s is for an identity of that name that exists no more (%s, now %s): delete and create the entry", identity, entry.PrincipalID, id)
		}
	} else if rec.BootstrapAdmin && rec.Creator == (record.Identity{ARN: identity, ID: id}) {
		// In this mode the creator is an administrator without appearing in any list.
		return Mapping{Username: "kubernetes-admin", Groups: []string{"system:masters"}}, nil
	}
	if !rec.UsesConfigMap() {
		if stale != nil {
			return Mapping{}, stale
		}
		return Mapping{}, unauthenticated(CauseNotMapped, "%s has no access entry in cluster %s", identity, rec.Name())
	}
	auth, err := s.AuthMap(ctx, rec.Plane.ID)
	if err != nil {
		return Mapping{}, fmt.Errorf("reading aws-auth of cluster %s: %w", rec.Name(), err)
	}
	canonical := canonicalARN(p.ARN)
	to, ok := auth.Find(canonical, p.Account)
	if !ok && stale != nil { // another entry is refused while this one is there
		return Mapping{}, stale
	}
	if !ok {
		return Mapping{}, unauthenticated(CauseNotMapped, "ARN is not mapped: %s has no access entry and is not in aws-auth of cluster %s", canonical, rec.Name())
	}
	return to, nil
}

// EntryMapping returns the mapping of an access entry's principal.
func EntryMapping(e *record.AccessEntry) Mapping {
	to := Mapping{*e.Entry.Username, e.Entry.KubernetesGroups}
	if node, ok := nodeTypes()[*e.Entry.Type]; ok && node.username == *e.Entry.Username {
		// Nodes are bootstrappers, too, although the entry does not show it.
		to.Groups = append([]string{"system:bootstrappers"}, to.Groups...)
	}
	return to
}

// userInfo fills in the templates of a mapping.
// https://github.com/kubernetes-sigs/aws-iam-authenticator#full-configuration-format
func (s *Service) userInfo(ctx context.Context, key store.Key, p awsapi.Principal, to Mapping) (authnv1.UserInfo, error) {
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

// canonicalARN converts a role session's ARN to the role's ARN, without a path: session ARNs do not
// include it.
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

// nodeNames caches the private DNS names of instances, which never change.
type nodeNames struct {
	mu     sync.Mutex
	byNode map[string]string
}

const nodeNamesLimit = 20_000

// privateDNSName returns the private DNS name of the instance that a role session belongs to, or the name of a node of
// EKS Auto Mode.
func (s *Service) privateDNSName(ctx context.Context, account, region, instanceID string) (string, error) {
	if !instanceIDPattern.MatchString(instanceID) {
		return "", unauthenticated(CauseNotMapped, "the session name %q is not an instance ID, which the mapping to {{EC2PrivateDNSName}} needs", instanceID)
	}
	id := account + "/" + region + "/" + instanceID
	s.names.mu.Lock()
	name := s.names.byNode[id]
	s.names.mu.Unlock()
	if name != "" {
		return name, nil
	}
	got, err := s.Instances.DescribeInstances(s.AsService(ctx, account, region), &awsec2.DescribeInstancesInput{InstanceIds: []string{instanceID}})
	if err != nil {
		if strings.HasPrefix(awserr.CodeOf(err), "InvalidInstanceID") {
			return "", unauthenticated(CauseNotMapped, "failed querying private DNS from EC2 API for node %s: %w", instanceID, err)
		}
		return "", err
	}
	for _, r := range got.Reservations {
		for _, i := range r.Instances {
			name = aws.ToString(i.PrivateDnsName)
			if o := i.Operator; o != nil && aws.ToBool(o.Managed) { // the nodes of EKS Auto Mode have the names of their instances
				name = instanceID
			}
		}
	}
	if name == "" {
		return "", unauthenticated(CauseNotMapped, "instance %s has no private DNS name", instanceID)
	}
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	if s.names.byNode == nil || len(s.names.byNode) >= nodeNamesLimit {
		s.names.byNode = map[string]string{}
	}
	s.names.byNode[id] = name
	return name, nil
}

// Causes of a Refusal.
const (
	CauseToken      = "InvalidToken"
	CauseSignature  = "SignatureOfAnotherCluster" // or of no cluster: the cluster name is signed
	CauseStaleEntry = "StaleAccessEntry"          // of a deleted identity of the same name
	CauseNotMapped  = "NotMapped"

	CauseNotNodeEntry = "NotTheEntryOfANode"
	CauseNotNode      = "NotMappedAsANode" // in aws-auth
)

func unauthenticated(cause, format string, args ...any) error {
	return &Refusal{cause: cause, reason: fmt.Errorf(format, args...)}
}

// A Refusal is an ErrUnauthenticated with its cause.
type Refusal struct {
	cause  string
	reason error
	// principal is who was refused, if the token is good.
	principal awsapi.Principal
}

func (r *Refusal) Error() string { return r.reason.Error() }

// Cause is one of the Cause… constants.
func (r *Refusal) Cause() string { return r.cause }

func (r *Refusal) Unwrap() []error { return []error{ErrUnauthenticated, r.reason} }

// IdentityOf returns the IAM identity behind a principal; for a role session, that is the role. The
// unique ID is the first part of UserID.
func IdentityOf(p awsapi.Principal) (identityARN, id string) {
	id, _, _ = strings.Cut(p.UserID, ":")
	if p.Type == awsapi.AssumedRole && p.RoleARN != "" {
		return p.RoleARN, id
	}
	return p.ARN, id
}

// A bearer token of EKS is a presigned sts:GetCallerIdentity URL in disguise.
// The rules are those of aws-iam-authenticator, which EKS runs:
// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
const (
	tokenPrefix    = "k8s-aws-v1."
	tokenMaxLength = 4096
	tokenLifetime  = 15 * time.Minute
	clusterHeader  = "x-k8s-aws-id"
	amzDateFormat  = "20060102T150405Z"
	maxSignedValid = 900
)

// stsHost matches the STS endpoints of the aws partition: global, regional,
// FIPS and dual-stack.
var stsHost = regexp.MustCompile(`^sts(-fips)?(\.[a-z]{2}(-[a-z]+)+-\d)?\.(amazonaws\.com|api\.aws)$`)

// parseToken decodes a token and checks everything but the signature.
func parseToken(token string, now time.Time, ownHost func(string) bool) (*url.URL, error) {
	if len(token) > tokenMaxLength {
		return nil, fmt.Errorf("token is too large: %d bytes", len(token))
	}
	encoded, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return nil, fmt.Errorf("token is missing expected %q prefix", tokenPrefix)
	}
	// Some clients pad the encoding; the stock server accepts only unpadded tokens.
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("token is not base64: %w", err)
	}
	u, err := url.Parse(string(raw))
	if err != nil {
		return nil, fmt.Errorf("token holds no URL: %w", err)
	}
	switch {
	case u.User != nil || u.Fragment != "" || u.Opaque != "":
		return nil, fmt.Errorf("unexpected parts in pre-signed URL")
	case u.Path != "/" && u.Path != "":
		return nil, fmt.Errorf("unexpected path %q in pre-signed URL", u.Path)
	case stsHost.MatchString(u.Host):
		if u.Scheme != "https" {
			return nil, fmt.Errorf("unexpected scheme %q in pre-signed URL", u.Scheme)
		}
	case !ownHost(u.Host):
		return nil, fmt.Errorf("unexpected hostname %q in pre-signed URL", u.Host)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("unexpected scheme %q in pre-signed URL", u.Scheme)
	}
	return u, checkTokenQuery(u.RawQuery, now)
}

// tokenParameters are the only query parameters that a token may have.
func tokenParameters() []string {
	return []string{
		"action", "version", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires",
		"x-amz-security-token", "x-amz-signature", "x-amz-signedheaders",
	}
}

func checkTokenQuery(rawQuery string, now time.Time) error {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return fmt.Errorf("bad query in pre-signed URL: %w", err)
	}
	q := map[string]string{}
	allowed := tokenParameters()
	for k, v := range values {
		lower := strings.ToLower(k)
		if !slices.Contains(allowed, lower) {
			return fmt.Errorf("non-whitelisted query parameter %q", k)
		}
		if _, twice := q[lower]; twice || len(v) != 1 {
			return fmt.Errorf("query parameter %q with multiple values not supported", k)
		}
		q[lower] = v[0]
	}
	if q["action"] != "GetCallerIdentity" {
		return fmt.Errorf("unexpected action %q in pre-signed URL", q["action"])
	}
	if !slices.Contains(strings.Split(strings.ToLower(q["x-amz-signedheaders"]), ";"), clusterHeader) {
		return fmt.Errorf("client did not sign the %s header in the pre-signed URL", clusterHeader)
	}
	expires, err := strconv.Atoi(q["x-amz-expires"])
	if err != nil || expires < 0 || expires > maxSignedValid {
		return fmt.Errorf("invalid X-Amz-Expires parameter in pre-signed URL: %q", q["x-amz-expires"])
	}
	date, err := time.Parse(amzDateFormat, q["x-amz-date"])
	if err != nil {
		return fmt.Errorf("error parsing X-Amz-Date parameter %q: %w", q["x-amz-date"], err)
	}
	if now.After(date.Add(tokenLifetime)) {
		return fmt.Errorf("X-Amz-Date parameter is expired (%.f minute expiration) %s", tokenLifetime.Minutes(), date)
	}
	return nil
}

// Package eksauth answers the Amazon EKS Auth API. Its one operation exchanges a pod's token for
// credentials of the role that an EKS Pod Identity association gives to the pod's service account.
// The package also implements the EKS Pod Identity Agent of nodes, which does the same over plain
// HTTP (Agent).
//
// The functions in Config review tokens and check that roles trust EKS. internal/app connects them
// to the EKS, IAM and STS services.
package eksauth

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
)

// audience is the required audience of tokens, and the service that assumes the roles.
const audience = "pods.eks.amazonaws.com"

// Errors of Config.Review.
var (
	ErrInvalidToken  = errors.New("invalid token")
	ErrNoAssociation = errors.New("no pod identity association")
)

// An ExpiredError is returned by Config.Review for a token that has expired.
type ExpiredError struct{ At time.Time }

func (e *ExpiredError) Error() string { return "token expired at " + e.At.String() }

// A NotAssumableError is returned by Config.Assume if the role or the target role cannot be
// assumed.
type NotAssumableError struct{ Why error }

func (e *NotAssumableError) Error() string { return e.Why.Error() }

// Unwrap returns the reason.
func (e *NotAssumableError) Unwrap() error { return e.Why }

// A Pod is the pod that a token was issued for, and its service account's association.
type Pod struct {
	Cluster, ClusterARN           string
	Namespace, ServiceAccount     string
	Name, UID                     string
	AssociationARN, AssociationID string
	RoleARN                       string
	TargetRoleARN, ExternalID     string // or empty
	Policy                        string // a session policy, or empty
	WithoutTags                   bool
}

// A Session describes a role session to be created for a pod.
type Session struct {
	Pod  Pod
	Name string
	// Tags are transitive, so a target role's session has them, too.
	Tags map[string]string
}

// A RoleSession is a role session that was created.
type RoleSession struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	Expiration                                 time.Time
	ARN, ID                                    string // ID of the assumed-role user
	Account                                    string
}

// Config has the service's dependencies. The functions are required.
type Config struct {
	// Review returns the pod behind a token of a cluster in the call's account and region.
	Review func(ctx context.Context, cluster, token string) (Pod, error)
	// Assume creates a session of the pod's role, which must trust EKS, and from it one of the
	// target role, if there is one.
	Assume func(ctx context.Context, s Session) (RoleSession, error)
	// Resolver provides the attributes of clusters and associations for authorization. It is EKS's.
	Resolver authz.Resolver
	Clock    clock.PassiveClock // nil means the real clock
}

// A Service answers the EKS Auth API.
type Service struct{ cfg Config }

// New returns the service.
func New(cfg Config) *Service {
	cfg.Clock = cmp.Or[clock.PassiveClock](cfg.Clock, clock.RealClock{})
	return &Service{cfg}
}

// AWS returns the service's table of operations for the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "eks-auth", Handler: s, Operations: []awsapi.Operation{
		{Name: "AssumeRoleForPodIdentity", Members: "*"},
	}}
}

// AssumeRoleForPodIdentity returns credentials to a pod that presents its token.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_auth_AssumeRoleForPodIdentity.html
func (s *Service) AssumeRoleForPodIdentity(ctx context.Context, in *AssumeRoleForPodIdentityInput) (*AssumeRoleForPodIdentityOutput, error) {
	pod, r, err := s.credentials(ctx, *in.ClusterName, *in.Token)
	if err != nil {
		return nil, err
	}
	return &AssumeRoleForPodIdentityOutput{
		AssumedRoleUser:        &AssumedRoleUser{Arn: &r.ARN, AssumeRoleId: &r.ID},
		Audience:               new(audience),
		Credentials:            &Credentials{AccessKeyId: &r.AccessKeyID, SecretAccessKey: &r.SecretAccessKey, SessionToken: &r.SessionToken, Expiration: &r.Expiration},
		PodIdentityAssociation: &PodIdentityAssociation{AssociationArn: &pod.AssociationARN, AssociationId: &pod.AssociationID},
		Subject:                &Subject{Namespace: &pod.Namespace, ServiceAccount: &pod.ServiceAccount},
	}, nil
}

func (s *Service) credentials(ctx context.Context, cluster, token string) (Pod, RoleSession, error) {
	pod, err := s.cfg.Review(ctx, cluster, token)
	var expired *ExpiredError
	switch {
	case errors.As(err, &expired):
		return pod, RoleSession{}, errExpired(s.cfg.Clock.Now(), expired.At)
	case errors.Is(err, ErrInvalidToken):
		return pod, RoleSession{}, errInvalidToken()
	case errors.Is(err, ErrNoAssociation):
		return pod, RoleSession{}, errNoAssociation()
	case err != nil:
		return pod, RoleSession{}, err
	}
	session := Session{Pod: pod, Name: sessionName(&pod)}
	if !pod.WithoutTags {
		session.Tags = sessionTags(&pod)
	}
	r, err := s.cfg.Assume(ctx, session)
	var denied *NotAssumableError
	if errors.As(err, &denied) {
		return pod, r, errNotAssumable(denied.Why)
	}
	return pod, r, err
}

// sessionTags returns the session tags that EKS Pod Identity adds.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html#pod-id-abac-tags
func sessionTags(p *Pod) map[string]string {
	return map[string]string{
		"eks-cluster-arn":            p.ClusterARN,
		"eks-cluster-name":           p.Cluster,
		"kubernetes-namespace":       p.Namespace,
		"kubernetes-service-account": p.ServiceAccount,
		"kubernetes-pod-name":        p.Name,
		"kubernetes-pod-uid":         p.UID,
	}
}

// sessionName returns eks-clustername-podname-random UUID, with the names truncated to fit into the
// 64 characters of a session name.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_auth_AssumedRoleUser.html
func sessionName(p *Pod) string {
	const names = 64 - len("eks-") - 1 - 1 - 36
	cluster := p.Cluster[:min(len(p.Cluster), names/2)]
	pod := p.Name[:min(len(p.Name), names-len(cluster))]
	return "eks-" + cluster + "-" + pod + "-" + ids.UUID()
}

package podidentity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/golang-jwt/jwt/v5"
	authnv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// Errors of ReviewPodToken.
var (
	ErrTokenInvalid  = errors.New("the cluster issued no such token for " + agentAudience)
	ErrNoAssociation = errors.New("the service account has no pod identity association")
)

// A TokenExpiredError is returned by ReviewPodToken for a valid token that has expired.
type TokenExpiredError struct{ At time.Time }

func (e *TokenExpiredError) Error() string { return "the token expired at " + e.At.String() }

// A Subject is the pod that a token was issued for, and its association.
type Subject struct {
	Cluster, ClusterARN       string
	Namespace, ServiceAccount string
	Pod, PodUID               string
	Association               Association
}

// Extra information about pods in service account tokens.
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// maxToken limits the size of tokens before they are parsed.
const maxToken = 16 << 10

// ReviewPodToken asks the API server of a cluster of the call's account and region which pod a
// token belongs to. The token must be for EKS Pod Identity and bound to an existing pod: a deleted
// pod's token is not valid.
func (s *Service) ReviewPodToken(ctx context.Context, cluster, token string) (Subject, error) {
	key, rec, err := s.ActiveCluster(ctx, &cluster)
	if err != nil {
		return Subject{}, err
	}
	if token == "" || len(token) > maxToken {
		return Subject{}, ErrTokenInvalid
	}
	ses, err := s.Sessions.Open(key, rec.Plane.ID)
	if err != nil {
		return Subject{}, err
	}
	// For other tokens the API server would call Drydock's webhook, which does not support
	// audiences.
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil || claims.Issuer != rec.Plane.Issuer {
		return Subject{}, ErrTokenInvalid
	}
	review, err := ses.Client.AuthenticationV1().TokenReviews().Create(ctx, &authnv1.TokenReview{
		Spec: authnv1.TokenReviewSpec{Token: token, Audiences: []string{agentAudience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return Subject{}, fmt.Errorf("reviewing a token: %w", err)
	}
	if !review.Status.Authenticated {
		if claims.ExpiresAt != nil && !s.Clock.Now().Before(claims.ExpiresAt.Time) {
			return Subject{}, &TokenExpiredError{claims.ExpiresAt.Time}
		}
		return Subject{}, ErrTokenInvalid
	}
	user := review.Status.User
	account, ok := strings.CutPrefix(user.Username, "system:serviceaccount:")
	namespace, name, split := strings.Cut(account, ":")
	pod, uid := user.Extra[extraPodName], user.Extra[extraPodUID]
	if !ok || !split || len(pod) != 1 || len(uid) != 1 {
		return Subject{}, ErrTokenInvalid
	}
	association, err := record.PodIdentities.Get(s.Store, record.PodIdentityKey(key, namespace, name))
	if err != nil {
		return Subject{}, store.NotFoundAs(err, ErrNoAssociation)
	}
	return Subject{
		Cluster: cluster, ClusterARN: *rec.Cluster.Arn, Namespace: namespace, ServiceAccount: name,
		Pod: pod[0], PodUID: uid[0], Association: *associationOf(&association),
	}, nil
}

// A ServiceAccountIdentity is what a cluster knows about a service account's IAM role, for
// explanations.
type ServiceAccountIdentity struct {
	Cluster, ClusterARN       string
	Account, Region           string
	Namespace, ServiceAccount string
	// Issuer and Subject are those of the service account's tokens.
	Issuer, Subject string
	// Exists reports whether the service account exists.
	Exists bool
	// RoleARN is the annotated role, or "".
	RoleARN string
	// Association is its EKS Pod Identity association, or nil. It takes precedence over the
	// annotation.
	Association *Association
	// Audience and Expiration, in seconds, are those of its pods' tokens.
	Audience   string
	Expiration int64
	// Pods run as the service account. Those in WithoutToken were created before it had a role.
	Pods, WithoutToken []string
	// Bare are those in WithoutToken that no controller would recreate.
	Bare []string
}

// An Association is an EKS Pod Identity association.
type Association struct {
	ID, ARN                string
	RoleARN, TargetRoleARN string
	ExternalID, Policy     string
	SessionTags            bool
}

func associationOf(rec *record.PodIdentity) *Association {
	a := &rec.Association
	return &Association{
		ID: *a.AssociationId, ARN: *a.AssociationArn, RoleARN: *a.RoleArn, TargetRoleARN: aws.ToString(a.TargetRoleArn),
		ExternalID: aws.ToString(a.ExternalId), Policy: aws.ToString(a.Policy), SessionTags: !*a.DisableSessionTags,
	}
}

// ServiceAccountIdentity looks up a service account of the call's account and region, and the pods
// that run as it.
func (s *Service) ServiceAccountIdentity(ctx context.Context, cluster, namespace, account string) (ServiceAccountIdentity, error) {
	key, rec, err := s.ActiveCluster(ctx, &cluster)
	if err != nil {
		return ServiceAccountIdentity{}, err
	}
	out := ServiceAccountIdentity{
		Cluster: cluster, ClusterARN: *rec.Cluster.Arn, Account: key.Account, Region: key.Region,
		Namespace: namespace, ServiceAccount: account,
		Issuer: rec.Plane.Issuer, Subject: "system:serviceaccount:" + namespace + ":" + account,
	}
	ses, err := s.Sessions.Open(key, rec.Plane.ID)
	if err != nil {
		return out, err
	}
	sa, err := ses.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, account, metav1.GetOptions{})
	switch {
	case err == nil:
		out.Exists, out.RoleARN = true, sa.Annotations[AnnotationRole]
	case apierrors.IsNotFound(err):
		sa = &corev1.ServiceAccount{}
	default:
		return out, err
	}
	if association, err := record.PodIdentities.Get(s.Store, record.PodIdentityKey(key, namespace, account)); err == nil {
		out.Association = associationOf(&association)
	}
	t := tokenOf(sa.Annotations, out.Association != nil)
	if t == nil {
		return out, nil
	}
	out.Audience, out.Expiration = t.audience, t.expiration
	pods, err := ses.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.serviceAccountName", account).String(),
	})
	if err != nil {
		return out, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch {
		case p.Spec.ServiceAccountName != account: // test fakes ignore field selectors
		case hasVolume(p.Spec.Volumes, t.volume):
			out.Pods = append(out.Pods, p.Name)
		default:
			out.Pods = append(out.Pods, p.Name)
			out.WithoutToken = append(out.WithoutToken, p.Name)
			if metav1.GetControllerOf(p) == nil {
				out.Bare = append(out.Bare, p.Name)
			}
		}
	}
	return out, nil
}

package podidentity

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// A ServiceAccountIdentity is what a cluster knows of a service account's way to an
// IAM role, for explanations.
type ServiceAccountIdentity struct {
	Cluster, ClusterARN       string
	Account, Region           string
	Namespace, ServiceAccount string
	// Issuer signs the cluster's tokens, and Subject is their subject.
	Issuer, Subject string
	// Exists says that the service account does.
	Exists bool
	// RoleARN is the annotated role, or "".
	RoleARN string
	// Association is its EKS Pod Identity association, which goes before the
	// annotation, or nil.
	Association *Association
	// Audience and Expiration, in seconds, are those of the tokens of its pods.
	Audience   string
	Expiration int64
	// Pods run as the service account; those WithoutToken were made before it had a role.
	Pods, WithoutToken []string
}

// A Association is an EKS Pod Identity association.
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

// ServiceAccountIdentity looks a service account of the call's account and region
// up, and the pods that run as it.
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
		case p.Spec.ServiceAccountName != account: // fakes select nothing
		case hasVolume(p.Spec.Volumes, t.volume):
			out.Pods = append(out.Pods, p.Name)
		default:
			out.Pods = append(out.Pods, p.Name)
			out.WithoutToken = append(out.WithoutToken, p.Name)
		}
	}
	return out, nil
}

package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
)

// podIdentityService is who assumes the roles of EKS Pod Identity.
const podIdentityService = "pods.eks.amazonaws.com"

// reviewPodToken lets EKS Auth ask EKS about a pod's token.
func (d *daemon) reviewPodToken(ctx context.Context, cluster, token string) (eksauth.Pod, error) {
	s, err := d.eks.ReviewPodToken(ctx, cluster, token)
	var expired *eks.PodTokenExpiredError
	switch {
	case errors.As(err, &expired):
		return eksauth.Pod{}, &eksauth.ExpiredError{At: expired.At}
	case errors.Is(err, eks.ErrPodTokenInvalid):
		return eksauth.Pod{}, eksauth.ErrInvalidToken
	case errors.Is(err, eks.ErrNoPodIdentity):
		return eksauth.Pod{}, eksauth.ErrNoAssociation
	case err != nil:
		return eksauth.Pod{}, err
	}
	a := s.Association
	return eksauth.Pod{
		Cluster: s.Cluster, ClusterARN: s.ClusterARN, Namespace: s.Namespace, ServiceAccount: s.ServiceAccount, Name: s.Pod, UID: s.PodUID,
		AssociationARN: a.ARN, AssociationID: a.ID, RoleARN: a.RoleARN, TargetRoleARN: a.TargetRoleARN, ExternalID: a.ExternalID,
		Policy: a.Policy, WithoutTags: !a.SessionTags,
	}, nil
}

// assumeForPod answers what EKS Auth asks of STS: a session of the pod's role, which EKS
// assumes for the cluster, and from there one of its target role.
func (d *daemon) assumeForPod(ctx context.Context, s eksauth.Session) (eksauth.RoleSession, error) {
	role, _ := arn.Parse(s.Pod.RoleARN) // EKS's own
	region, now := awsapi.CallFrom(ctx).Region, time.Now()
	in := &awssts.AssumeRoleInput{RoleArn: &s.Pod.RoleARN, RoleSessionName: &s.Name, TransitiveTagKeys: slices.Sorted(maps.Keys(s.Tags))}
	for _, k := range in.TransitiveTagKeys {
		in.Tags = append(in.Tags, ststypes.Tag{Key: &k, Value: aws.String(s.Tags[k])})
	}
	if s.Pod.TargetRoleARN == "" {
		in.Policy = optional(s.Pod.Policy)
	}
	out, err := d.assume(awsapi.AsServicePrincipal(ctx, role.Account, region, podIdentityService, s.Pod.ClusterARN, now), in)
	if err != nil || s.Pod.TargetRoleARN == "" {
		return out, err
	}
	_, session, err := d.sts.OpenSession(ctx, out.AccessKeyID, out.SessionToken)
	if err != nil {
		return eksauth.RoleSession{}, err
	}
	return d.assume(awsapi.AsRole(ctx, session, region, podIdentityService, now), &awssts.AssumeRoleInput{
		RoleArn: &s.Pod.TargetRoleARN, RoleSessionName: &s.Name, ExternalId: optional(s.Pod.ExternalID), Policy: optional(s.Pod.Policy),
	})
}

// assume calls AssumeRole as whoever ctx says.
func (d *daemon) assume(ctx context.Context, in *awssts.AssumeRoleInput) (eksauth.RoleSession, error) {
	out, err := awscall.STS{API: d.server}.AssumeRole(ctx, in)
	var refused smithy.APIError
	if errors.As(err, &refused) && !awsapi.IsThrottle(err) {
		return eksauth.RoleSession{}, &eksauth.NotAssumableError{Why: err}
	}
	if err != nil {
		return eksauth.RoleSession{}, err
	}
	user, _ := arn.Parse(*out.AssumedRoleUser.Arn) // STS made the ARN
	return eksauth.RoleSession{
		AccessKeyID: *out.Credentials.AccessKeyId, SecretAccessKey: *out.Credentials.SecretAccessKey, SessionToken: *out.Credentials.SessionToken,
		Expiration: aws.ToTime(out.Credentials.Expiration), ARN: *out.AssumedRoleUser.Arn, ID: *out.AssumedRoleUser.AssumedRoleId, Account: user.Account,
	}, nil
}

// optional is s as a request has it: absent if it is empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

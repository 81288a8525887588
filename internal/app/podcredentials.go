package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
	"github.com/drydock-dev/drydock/internal/service/sts"
)

// podSession is how long credentials of EKS Pod Identity are valid, from memory of
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-assign-target-role.html. Those of a target role last one
// hour, as in all role chaining.
const podSession = 6 * time.Hour

// podIdentityService is the service that assumes the roles of EKS Pod Identity.
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

// assumeForPod lets EKS Auth assume a pod's role by IAM and STS.
func (d *daemon) assumeForPod(ctx context.Context, s eksauth.Session) (eksauth.RoleSession, error) {
	if err := d.podRoleTrust(ctx, &s); err != nil {
		return eksauth.RoleSession{}, &eksauth.NotAssumableError{Why: err}
	}
	opts := sts.SessionOptions{Tags: s.Tags}
	for k := range s.Tags {
		opts.TransitiveTagKeys = append(opts.TransitiveTagKeys, k)
	}
	if s.Pod.Policy != "" && s.Pod.TargetRoleARN == "" {
		opts.Policies = []string{s.Pod.Policy}
	}
	c, err := d.sts.IssueRoleSession(ctx, s.Pod.RoleARN, s.Name, podSession, opts)
	if err != nil {
		return eksauth.RoleSession{}, err
	}
	if s.Pod.TargetRoleARN != "" {
		return d.assumeTarget(ctx, &s, c)
	}
	return eksauth.RoleSession{
		AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken, Expiration: c.Expiration,
		ARN: c.Principal.ARN, ID: c.Principal.UserID, Account: c.Principal.Account,
	}, nil
}

// podRoleTrust evaluates the role's trust policy for EKS and the pod's session tags.
func (d *daemon) podRoleTrust(ctx context.Context, s *eksauth.Session) error {
	role, err := d.iam.RoleByARN(ctx, s.Pod.RoleARN)
	if err != nil {
		return fmt.Errorf("role %s: %w", s.Pod.RoleARN, err)
	}
	trust, err := policy.Parse(policy.Trust, role.Trust)
	if err != nil {
		return err
	}
	keys := map[string][]string{"aws:sourceaccount": {role.Account}, "aws:sourcearn": {s.Pod.ClusterARN}, "sts:rolesessionname": {s.Name}}
	actions := []string{"sts:AssumeRole"}
	for k, v := range s.Tags {
		keys["aws:requesttag/"+k] = []string{v}
		keys["aws:tagkeys"] = append(keys["aws:tagkeys"], k)
	}
	if len(s.Tags) > 0 {
		keys["sts:transitivetagkeys"] = keys["aws:tagkeys"]
		actions = append(actions, "sts:TagSession")
	}
	for _, action := range actions {
		decision := policy.Evaluate(policy.Request{
			Action: action, Resource: role.ARN, Principal: policy.Principal{Service: podIdentityService}, Context: policy.Context{Values: keys},
		}, policy.Policies{Trust: &policy.Source{Name: "trust policy of " + role.ARN, Document: trust}})
		if !decision.Allowed {
			return fmt.Errorf("%s on %s: %s", action, role.ARN, decision.Reason)
		}
	}
	return nil
}

// assumeTarget calls AssumeRole for the target role with the session of the pod's role.
func (d *daemon) assumeTarget(ctx context.Context, s *eksauth.Session, from sts.Credentials) (eksauth.RoleSession, error) {
	_, caller, err := d.sts.OpenSession(ctx, from.AccessKeyID, from.SessionToken)
	if err != nil {
		return eksauth.RoleSession{}, err
	}
	call := *awsapi.CallFrom(ctx)
	call.Principal, call.Service, call.Operation = caller, "sts", "AssumeRole"
	in := &awssts.AssumeRoleInput{RoleArn: &s.Pod.TargetRoleARN, RoleSessionName: &s.Name, ExternalId: &s.Pod.ExternalID}
	if s.Pod.Policy != "" {
		in.Policy = &s.Pod.Policy
	}
	out, err := d.sts.AssumeRole(awsapi.WithCall(ctx, &call), in)
	var refused smithy.APIError
	if errors.As(err, &refused) {
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

package compute

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
)

// podCredentials exchanges the token of a pod's service account on an instance for credentials, as the SDK in the pod
// does: through STS, or through the node's EKS Pod Identity Agent. An error is the SDK's, or a *node.Refusal if the
// call was refused.
func (g *guestCalls) podCredentials(ctx context.Context, in machine.Instance, id node.PodIdentity) (aws.Credentials, error) {
	if id.RoleARN == "" {
		return g.identityCredentials(ctx, in, id)
	}
	const operation = "operation error STS: AssumeRoleWithWebIdentity, "
	v, err := g.network.decide(ctx, in, "sts."+in.Region+".amazonaws.com", 443)
	if err != nil {
		return aws.Credentials{}, wrapped(err, "failed to retrieve credentials, "+operation+"exceeded maximum number of attempts, 3, https response error StatusCode: 0, request send failed, ")
	}
	call := &awsapi.Call{
		Region: in.Region, Principal: awsapi.Principal{Type: awsapi.AnonymousCaller}, SourceIP: v.Source, UserAgent: sdkAgent, TLS: true, VPCEndpoint: endpointOf(in, v),
	}
	out, err := awsapi.Do[awssts.AssumeRoleWithWebIdentityOutput](awsapi.WithCall(ctx, call), g.api, &awssts.AssumeRoleWithWebIdentityInput{
		RoleArn: &id.RoleARN, RoleSessionName: aws.String(fmt.Sprint(g.network.clock.Now().UnixNano())), WebIdentityToken: &id.Token,
	})
	if err != nil {
		return aws.Credentials{}, notAssumed(err, operation, id.Cluster, id.RoleARN)
	}
	c := out.Credentials
	return aws.Credentials{
		AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey, SessionToken: *c.SessionToken, CanExpire: true, Expires: *c.Expiration,
	}, nil
}

// identityCredentials calls EKS Auth as the node.
func (g *guestCalls) identityCredentials(ctx context.Context, in machine.Instance, id node.PodIdentity) (aws.Credentials, error) {
	out, err := g.assumeForPod(ctx, in, id.Cluster, id.Token)
	if node.DecisionOf(err) != nil {
		return aws.Credentials{}, wrapped(err, "failed to refresh cached credentials, ")
	}
	if err != nil {
		return aws.Credentials{}, notAssumed(err, "operation error EKS Auth: AssumeRoleForPodIdentity, ", id.Cluster, id.Namespace+"/"+id.ServiceAccount)
	}
	c := out.Credentials
	return aws.Credentials{
		AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey, SessionToken: *c.SessionToken, CanExpire: true, Expires: *c.Expiration,
	}, nil
}

// sdkAgent is the user agent of programs on nodes.
const sdkAgent = "aws-sdk-go-v2"

// assumeForPod changes a pod's token into credentials, as the EKS Pod Identity Agent of its
// node does: it calls EKS Auth as the node. The call is decided first, for the reason why
// it is refused.
func (g *guestCalls) assumeForPod(ctx context.Context, in machine.Instance, cluster, token string) (*eksauth.AssumeRoleForPodIdentityOutput, error) {
	call, err := g.decide(ctx, in, node.Call{Action: node.ActionAssumeForPod, Host: "eks-auth." + in.Region + ".api.aws", Cluster: cluster})
	if err != nil {
		return nil, err
	}
	call.Service, call.UserAgent = "", sdkAgent // it comes from no service
	return awsapi.Do[eksauth.AssumeRoleForPodIdentityOutput](awsapi.WithCall(ctx, call), g.api, &eksauth.AssumeRoleForPodIdentityInput{ClusterName: &cluster, Token: &token})
}

// notAssumed is the refusal of a role to a pod.
func notAssumed(err error, operation, cluster, component string) error {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	return &node.Refusal{
		Err: fmt.Errorf("failed to retrieve credentials, %shttps response error StatusCode: 403, api error %s: %s", operation, api.ErrorCode(), api.ErrorMessage()),
		Decision: node.Decision{
			By: node.ByIAM, Code: api.ErrorCode(), Component: component,
			Text:  "the service account of aws-node gets no credentials: " + strings.TrimSuffix(api.ErrorMessage(), "."),
			Fixes: []advice.Fix{advice.Sketch("this shows which link from the service account to its role is broken, and what fixes it", "drydock why serviceaccount kube-system/aws-node --cluster "+cluster)},
		},
	}
}

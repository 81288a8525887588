package compute

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
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
		RequestID: ids.UUID(), Service: "sts", Operation: "AssumeRoleWithWebIdentity", Account: in.Account, Region: in.Region,
		Principal: awsapi.Principal{Type: awsapi.AnonymousCaller}, SourceIP: v.Source, Time: time.Now(), TLS: true,
	}
	call.VPCEndpoint = endpointOf(in, v)
	out, err := g.sts.AssumeRoleWithWebIdentity(awsapi.WithCall(ctx, call), &awssts.AssumeRoleWithWebIdentityInput{
		RoleArn: &id.RoleARN, RoleSessionName: aws.String(fmt.Sprint(time.Now().UnixNano())), WebIdentityToken: &id.Token,
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
	err := g.call(ctx, in, node.Call{Action: node.ActionAssumeForPod, Host: "eks-auth." + in.Region + ".api.aws", Cluster: id.Cluster})
	if err != nil {
		return aws.Credentials{}, wrapped(err, "failed to refresh cached credentials, ")
	}
	call := &awsapi.Call{RequestID: ids.UUID(), Service: "eks-auth", Operation: "AssumeRoleForPodIdentity", Account: in.Account, Region: in.Region, Time: time.Now(), TLS: true}
	out, err := g.eksAuth.AssumeRoleForPodIdentity(awsapi.WithCall(ctx, call), &eksauth.AssumeRoleForPodIdentityInput{ClusterName: &id.Cluster, Token: &id.Token})
	if err != nil {
		return aws.Credentials{}, notAssumed(err, "operation error EKS Auth: AssumeRoleForPodIdentity, ", id.Cluster, id.Namespace+"/"+id.ServiceAccount)
	}
	c := out.Credentials
	return aws.Credentials{
		AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey, SessionToken: *c.SessionToken, CanExpire: true, Expires: *c.Expiration,
	}, nil
}

// notAssumed returns the error if a pod is refused a role.
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
			Fixes: advice.Each("drydock why serviceaccount kube-system/aws-node --cluster " + cluster),
		},
	}
}

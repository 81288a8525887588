package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
	"github.com/drydock-dev/drydock/internal/service/iam"
)

const (
	stackService = "cloudformation.amazonaws.com"
	// stackSession is the name of a stack's role session.
	// [seen] localstack/localstack, tests/aws/services/cloudformation
	stackSession = "AWSCloudFormation"
)

// newCloudFormation makes CloudFormation, which calls all other services.
func (d *daemon) newCloudFormation() *cloudformation.Service {
	return cloudformation.New(cloudformation.Config{
		Store: d.store,
		API:   d.server,
		Assume: func(ctx context.Context, roleARN, stackARN string) (awsapi.Principal, error) {
			role, err := d.iam.RoleByARN(ctx, roleARN)
			switch {
			case errors.Is(err, iam.ErrNoSuchRole):
				return awsapi.Principal{}, fmt.Errorf("%w: %s", cloudformation.ErrNoRole, roleARN)
			case err != nil:
				return awsapi.Principal{}, err
			}
			if !d.iam.TrustsServiceFor(role, stackService, stackARN) {
				return awsapi.Principal{}, fmt.Errorf("the trust policy of %s does not let %s assume it", roleARN, stackService)
			}
			return d.sts.RoleSession(ctx, role.ARN, stackSession)
		},
		Deleting: d.timing.StackDeleting,
		Log:      d.log,
	})
}

// serveHandle answers requests to the URLs of wait conditions' handles, which are in a bucket that belongs to AWS. Only
// the network and the policy of the VPC endpoint that they come through can refuse them.
func (d *daemon) serveHandle(w http.ResponseWriter, r *http.Request) {
	d.stacks.ServeHandle(w, r, func(action, object string) bool {
		through, _ := d.origins.Of(r.RemoteAddr)
		if through.ID == "" {
			return true
		}
		text, ok := d.ec2.EndpointPolicy(r.Context(), through.Account, through.Region, through.ID)
		if !ok || text == "" {
			return ok
		}
		document, err := policy.Parse(policy.Endpoint, text)
		if err != nil {
			return false
		}
		call := policy.Request{Action: action, Resource: object}
		call.Context.Values = map[string][]string{"aws:sourcevpce": {through.ID}, "aws:sourcevpc": {through.VPCID}}
		return compute.Through(call, through.ID, document).Allowed
	})
}

// ofStacks is the page's part on CloudFormation.
func ofStacks() string {
	return `
## Stacks

CloudFormation creates, updates and deletes stacks of the resource types in docs/cloudformation.md, which says which parts of each are handled.
Other types are refused as AWS refuses types that it does not know. It differs from AWS as follows:

- A property that has no equivalent in the API call behind its type, or that the call would not honour, fails the resource with the text of HTTP 501. None is dropped silently.
- The custom resources are those that docs/cloudformation.md lists.
- Drift is detected in the types that docs/cloudformation.md lists, and those can be imported; resources of others stay NOT_CHECKED.
- Stacks can be nested in at most ten levels.
- TemplateURL also takes URLs below Drydock's own address, to which the AWS CLI uploads.
- The supported transforms are AWS::LanguageExtensions and AWS::Include; AWS::Serverless and macros fail the stack or the change set. The section Hooks is refused.
  If a transform fails, CreateStack, UpdateStack and CreateChangeSet return its error. AWS fails the stack or the change set later.
- Instances have cfn-signal and cfn-get-metadata, with or without credentials; cfn-init and cfn-hup say that they are not supported.
- Dynamic references resolve parameters of SSM and secrets of Secrets Manager; ssm-secure works only where AWS allows it.
- Notification ARNs are stored and returned; nothing is published.
- The tags aws:cloudformation:* are set only on resources of EC2 and Auto Scaling.
- A KMS key is created twice if the daemon is killed between the call that creates it and the record of its ID: neither KMS's API nor its tags show whose it is.
`
}

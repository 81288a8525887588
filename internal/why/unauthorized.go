package why

import (
	"context"
	"fmt"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// Unauthorized says why a cluster does not know an instance's token.
func (x *Explainer) Unauthorized(ctx context.Context, in machine.Instance, host, token string) *node.Decision {
	plane, cluster, ok := x.cfg.PlaneAt(host)
	if !ok {
		return nil
	}
	_, err := x.cfg.EKS.Authenticate(ctx, plane, token)
	if err == nil {
		return nil // it would get in now
	}
	out := &node.Decision{By: node.ByCluster, Code: "Unauthorized", Component: in.RoleARN, Text: err.Error()}
	principals, err := x.cfg.EKS.KnownPrincipals(ctx, plane)
	if err != nil {
		return out
	}
	role, bare := in.RoleARN, in.RoleARN
	if a, err := arn.Parse(role); err == nil {
		bare = arn.IAM(a.Account, "role/"+roleName(role))
	}
	known := append(append([]string{}, principals.Entries...), principals.Mapped...)
	const most = 5
	switch n := len(known); {
	case principals.Invalid != nil:
		out.Text += "; aws-auth cannot be read, and maps nobody: " + principals.Invalid.Error()
	case n == 0:
		out.Text += "; the cluster knows nobody"
	case n <= most:
		out.Text += "; the cluster knows " + strings.Join(known, ", ")
	default:
		out.Text += fmt.Sprintf("; the cluster knows %d others", n)
	}
	for _, m := range principals.Mapped {
		same := strings.EqualFold(m[strings.LastIndexByte(m, '/')+1:], roleName(role))
		switch {
		case role != bare && strings.EqualFold(m, role):
			out.Text += ". The role has a path, which aws-auth must not have: tokens are of " + bare
		case strings.Contains(m, ":instance-profile/") && (same || strings.EqualFold(m, in.ProfileARN)):
			out.Text += ". " + m + " is an instance profile; nodes are known by their role, " + bare
		case strings.Contains(m, ":assumed-role/"+strings.ToLower(roleName(role))+"/"):
			out.Text += ". " + m + " is a session; write the role's ARN, " + bare
		case same && !strings.EqualFold(m, bare):
			out.Text += ". " + m + " is of another account or kind than " + bare
		}
	}
	if principals.API {
		out.Fixes = append(out.Fixes, advice.Paste("aws eks create-access-entry --cluster-name "+cluster+" --principal-arn "+role+" --type EC2_LINUX --region "+in.Region))
	}
	if principals.ConfigMap {
		out.Fixes = append(out.Fixes, advice.Paste("eksctl create iamidentitymapping --cluster "+cluster+" --arn "+bare+
			" --username 'system:node:{{EC2PrivateDNSName}}' --group system:bootstrappers --group system:nodes"))
	}
	return out
}

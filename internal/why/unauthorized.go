package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	authnv1 "k8s.io/api/authentication/v1"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// Codes of the reasons why a cluster does not accept a machine's token, or does not make the machine Ready.
const (
	codeUnauthorized = "Unauthorized"
	codeWrongCluster = "WrongClusterName"
	codeStaleEntry   = "StaleAccessEntry"
	codeNoCNI        = "NoCNI"
)

// Tokens explains why clusters refuse the tokens of machines. It is not part of the Explainer, which uses the machines,
// because the machines use it themselves.
type Tokens struct {
	EKS Authenticator
	// PlaneAt finds the control plane, and the name of its cluster, by the host of an endpoint.
	PlaneAt func(host string) (planeID, cluster string, ok bool)
}

// An Authenticator is the part of EKS that authenticates tokens.
type Authenticator interface {
	Authenticate(ctx context.Context, planeID, token string) (authnv1.UserInfo, error)
	KnownPrincipals(ctx context.Context, planeID string) (eks.KnownPrincipals, error)
}

// Unauthorized returns why a cluster does not accept an instance's token. named is the cluster that the instance's user
// data names, if known.
func (t Tokens) Unauthorized(ctx context.Context, in machine.Instance, named, host, token string) *node.Decision {
	plane, cluster, ok := t.PlaneAt(host)
	if !ok {
		return nil
	}
	_, err := t.EKS.Authenticate(ctx, plane, token)
	if err == nil {
		return nil // it would be accepted now
	}
	out := &node.Decision{
		By: node.ByCluster, Code: codeUnauthorized, Component: in.RoleARN, Text: err.Error(),
		Subject: subject(plane, cluster, in.RoleARN, &in),
	}
	if refused, ok := errors.AsType[*eks.Refusal](err); ok {
		switch refused.Cause() {
		case eks.CauseSignature:
			if named != "" && named != cluster {
				out.By, out.Code, out.Component, out.Subject.Named, out.Subject.Instance = node.ByImage, codeWrongCluster, "user data of "+in.ID, named, in.ID
				out.Text = "user data names the cluster " + named + ", and its endpoint is that of " + cluster +
					": the name is signed with each token (x-k8s-aws-id), so " + cluster + " takes none of them"
			}
			return out // the token's owner is unknown, so a mapping does not help
		case eks.CauseStaleEntry:
			out.Code = codeStaleEntry
			return out
		}
	}
	principals, err := t.EKS.KnownPrincipals(ctx, plane)
	if err != nil {
		return out
	}
	role, bare := in.RoleARN, withoutPath(in.RoleARN)
	known := append(append([]string{}, principals.Entries...), principals.Mapped...)
	const most = 5
	switch n := len(known); {
	case principals.Invalid != nil:
		out.Text += "; aws-auth cannot be parsed and maps no roles: " + principals.Invalid.Error()
	case n == 0:
		out.Text += "; the cluster maps no roles"
	case n <= most:
		out.Text += "; the cluster maps " + strings.Join(known, ", ")
	default:
		out.Text += fmt.Sprintf("; the cluster maps %d other roles", n)
	}
	for _, m := range principals.Mapped {
		same := strings.EqualFold(m[strings.LastIndexByte(m, '/')+1:], roleName(role))
		switch {
		case role != bare && strings.EqualFold(m, role):
			out.Text += ". The role has a path, which must be left out in aws-auth: tokens are for " + bare
		case strings.Contains(m, ":instance-profile/") && (same || strings.EqualFold(m, in.ProfileARN)):
			out.Text += ". " + m + " is an instance profile; nodes are identified by their role, " + bare
		case strings.Contains(m, ":assumed-role/"+strings.ToLower(roleName(role))+"/"):
			out.Text += ". " + m + " is a session; use the role's ARN, " + bare
		case same && !strings.EqualFold(m, bare):
			out.Text += ". " + m + " is in another account or not of the same kind as " + bare
		}
	}
	return out
}

func withoutPath(role string) string {
	if a, err := arn.Parse(role); err == nil {
		return arn.IAM(a.Account, "role/"+roleName(role))
	}
	return role
}

// subject returns who asks a cluster to be let in: the role of a machine, which may be nil if it is not known.
func subject(plane, cluster, role string, m *machine.Instance) *node.Subject {
	s := &node.Subject{PlaneID: plane, Cluster: cluster, Role: role}
	if m != nil {
		s.Auto, s.Fargate = m.Operator != "", m.Fargate
	}
	return s
}

// entryType returns the type of the access entry for the role of an EC2 instance or of a Fargate profile.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html#auto-node-access-entry
func entryType(s *node.Subject) string {
	switch {
	case s.Fargate:
		return "FARGATE_LINUX"
	case s.Auto:
		return "EC2"
	}
	return "EC2_LINUX"
}

// mapRole returns the fixes that map a role as a role of nodes: by an access entry if the cluster's mode has them, and by
// aws-auth, whose text is generated here and parsed to check it. Nodes of EKS Auto Mode need an access entry.
func (x *Explainer) mapRole(ctx context.Context, region string, s *node.Subject) []advice.Fix {
	principals, err := x.cfg.EKS.KnownPrincipals(ctx, s.PlaneID)
	if err != nil {
		return nil
	}
	is := func(known string) bool {
		return strings.EqualFold(known, s.Role) || strings.EqualFold(known, withoutPath(s.Role))
	}
	mapped := func(m string) bool { return strings.EqualFold(m, withoutPath(s.Role)) }
	if principals.API && slices.ContainsFunc(principals.Entries, is) || principals.ConfigMap && slices.ContainsFunc(principals.Mapped, mapped) {
		return nil // it has been mapped since, and the node tries again
	}
	var out []advice.Fix
	if principals.API {
		out = append(out, x.addEntry(region, s, entryType(s))...)
	}
	if principals.ConfigMap && !s.Auto {
		out = append(out, x.editAuth(ctx, s, entryType(s))...)
	}
	return out
}

// addEntry returns the fix that creates an access entry of a node type for a role.
func (x *Explainer) addEntry(region string, s *node.Subject, typ string) []advice.Fix {
	return advice.Try(func([]advice.Change) error {
		return x.cfg.EKS.TryNodeEntry(context.Background(), s.PlaneID, s.Role, typ, false)
	},
		mapping(s), createEntry(region, s, typ)...)
}

func mapping(s *node.Subject) []advice.Change {
	return []advice.Change{{Kind: advice.MapRole, Resource: s.Cluster, Value: s.Role}}
}

func createEntry(region string, s *node.Subject, typ string) []string {
	of := " --cluster-name " + s.Cluster + " --principal-arn " + s.Role
	out := []string{"aws eks create-access-entry" + of + " --type " + typ + " --region " + region}
	if s.Auto {
		out = append(out, "aws eks associate-access-policy"+of+" --policy-arn arn:aws:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy --access-scope type=cluster --region "+region)
	}
	return out
}

// editAuth returns the command that maps a role in aws-auth and keeps its other contents.
func (x *Explainer) editAuth(ctx context.Context, s *node.Subject, typ string) []advice.Fix {
	text, exists, err := x.cfg.EKS.MapRoles(ctx, s.PlaneID, s.Role, typ)
	if err != nil {
		return nil
	}
	tried := func([]advice.Change) error { return nil } // MapRoles has checked that the role and all others are mapped
	if !exists {
		return advice.Try(tried, mapping(s), "kubectl create configmap aws-auth --namespace kube-system --from-literal=mapRoles="+quoted(text))
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"data": map[string]string{"mapRoles": text}}); err != nil { // strings always encode
		panic(err)
	}
	return advice.Try(tried, mapping(s), "kubectl patch configmap aws-auth --namespace kube-system --type merge --patch "+quoted(strings.TrimSpace(b.String())))
}

// quoted returns a text as one word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

package why

import (
	"context"
	"regexp"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/reach"
)

// A cause is a row of the table of problems that `why` knows. by and code are those of the
// reason that it prints. rows are pages of docs/failures, which test/e2e plays with the
// commands that are printed for them.
//
// Causes of a node's step are recognized by step and by data, which is Step.Cause, and have
// a text that says what is wrong. Decisions of the network, IAM or a cluster already
// explain everything but the fixes.
type cause struct {
	by, code string
	rows     []string
	// tests names the test that covers the cause if no row does.
	tests string

	step, data string
	when       func(*question) bool // nil means always
	component  func(*question) string
	text       func(*question) string
	// propose returns the fixes. It is nil if an engine proposes them: internal/advice for
	// connections that the network refuses, internal/policy for permissions, and the pod's
	// chain.
	propose func(*question) []advice.Fix
}

// A question holds the facts that causes are recognized by.
type question struct {
	x *Explainer
	e *api.NodeExplanation
	m *machine.Instance // nil if it is gone
	s *node.Step
	d *node.Decision
}

func (q *question) at() string { return " --region " + q.e.Region }

// causes returns the table. If several rows match a step, the first one counts.
func causes() []cause {
	// User data runs only once, so the instance must be replaced.
	userData := func(c cause) cause {
		c.by = node.ByImage
		c.component = func(q *question) string { return "user data of " + q.e.Instance }
		c.propose = func(q *question) []advice.Fix { return q.x.relaunch(q.e, q.m, "", "") }
		return c
	}
	says := func(text string) func(*question) string { return func(*question) string { return text } }
	instance := func(q *question) string { return q.e.Instance }
	role := func(q *question) string { return q.e.Role }
	subnet := func(q *question) string { return q.m.SubnetID }
	console := func(q *question) string {
		return "the script did not come to its end; what it printed: aws ec2 get-console-output --latest --output text --instance-id " + q.e.Instance + q.at()
	}
	return []cause{
		// What a node's programs report.
		{
			by: "EC2", code: "MetadataOff", rows: []string{"imds-off"}, step: node.StepMetadata, component: instance,
			text: says("the instance's metadata service does not answer it, which is where user data and credentials are"),
			propose: func(q *question) []advice.Fix {
				return advice.Try(q.metadataAnswers, []advice.Change{{Kind: advice.EnableMetadata, Resource: q.e.Instance}},
					"aws ec2 modify-instance-metadata-options --instance-id "+q.e.Instance+" --http-endpoint enabled"+q.at(),
					"aws ec2 reboot-instances --instance-ids "+q.e.Instance+q.at())
			},
		},
		userData(cause{
			code: "UnknownCommand", rows: []string{"unknown-command"}, step: node.StepScript, data: node.CauseUnknownCommand, when: (*question).runs,
			text: says("user data runs commands that neither the image nor a simulated machine has"),
		}),
		userData(cause{
			code: "BootstrapRemoved", rows: []string{"bootstrap-on-al2023"}, step: node.StepScript, when: (*question).oldBootstrap,
			text: says("Amazon Linux 2023 images no longer have bootstrap.sh: user data must be a NodeConfig for nodeadm"),
		}),
		userData(cause{code: "ScriptFailed", rows: []string{"imds-v1", "shell-syntax"}, step: node.StepScript, text: console}),
		{
			by: node.ByIAM, code: "AccessDeniedException", rows: []string{"no-describe-cluster"}, step: node.StepDescribe, data: "AccessDeniedException",
			component: says("eks:DescribeCluster"),
			text: func(q *question) string {
				return "the role " + q.e.Role + " may not describe the cluster, which bootstrap.sh does unless it is given endpoint and authority"
			},
			propose: func(q *question) []advice.Fix {
				const action = "eks:DescribeCluster"
				c, command := node.Attached(q.e.Role, node.ManagedPolicy(action, false))
				return q.x.relaunchAfter(q.e, q.m, advice.Try(q.x.roleMay(q.e.Role, action, clusterARN(q.e)), []advice.Change{c}, command))
			},
		},
		userData(cause{
			code: "NoSuchCluster", rows: []string{"wrong-name"}, step: node.StepDescribe, data: "ResourceNotFoundException",
			text: func(q *question) string {
				return "user data names a cluster that " + q.e.Region + " does not have; aws eks list-clusters" + q.at() + " lists those that it has"
			},
		}),
		userData(cause{code: "UserData", rows: []string{"no-user-data", "not-yaml"}, step: node.StepUserData, text: says("the image's programs could make no node's configuration of user data")}),
		userData(cause{
			code: "NoSuchEndpoint", rows: []string{"wrong-endpoint"}, step: node.StepDNS, data: node.CauseNoSuchHost,
			text: func(q *question) string { return "no cluster has this endpoint" + describe(q.e, "cluster.endpoint") },
		}),
		userData(cause{
			code: "WrongAuthority", rows: []string{"wrong-authority"}, step: node.StepEndpoint, data: node.CauseWrongAuthority,
			text: func(q *question) string {
				return "the certificate authority in user data is not the cluster's" + describe(q.e, "cluster.certificateAuthority.data")
			},
		}),
		// The API server's refusals have only a text.
		{
			by: node.ByCluster, code: "Forbidden", rows: []string{"mapped-username"}, step: node.StepRegister, component: role,
			when: func(q *question) bool { return nodesModified.MatchString(q.s.Evidence) },
			text: func(q *question) string {
				m := nodesModified.FindStringSubmatch(q.s.Evidence)
				return "aws-auth maps the role to the user system:node:" + m[1] + ", but the node is " + m[2] + ": its username must be system:node:{{EC2PrivateDNSName}}"
			},
			propose: (*question).remap,
		},
		{
			by: node.ByCluster, code: "Forbidden", rows: []string{"mapped-groups"}, step: node.StepRegister, component: role,
			when: func(q *question) bool {
				return strings.Contains(q.s.Evidence, `User "system:node:`) && strings.Contains(q.s.Evidence, "cannot create resource")
			},
			text:    says("the cluster recognizes the node, but puts it in neither of the groups system:bootstrappers and system:nodes"),
			propose: (*question).remap,
		},
		{
			by: node.ByCluster, code: "Forbidden", rows: []string{"entry-type"}, step: node.StepRegister, component: role,
			when: func(q *question) bool { return strings.Contains(q.s.Evidence, `User "arn:aws:sts::`) },
			text: func(q *question) string {
				return "the cluster treats the role as a user, not as a node: the type of its access entry is not " + entryType(q.subject(""))
			},
			propose: func(q *question) []advice.Fix {
				plane, err := q.x.planeOf(q.e)
				if err != nil {
					return nil
				}
				return q.x.replaceEntry(q.e.Region, q.subject(plane))
			},
		},
		{
			by: "EC2", code: "InsufficientFreeAddressesInSubnet", tests: "TestHint", step: node.StepNetwork, data: "InsufficientFreeAddressesInSubnet",
			when: (*question).runs, component: subnet, text: says("every pod takes an address of the node's subnet, which has none left"),
			propose: func(q *question) []advice.Fix {
				return oneSketch("delete what needs no address any more, or launch nodes in a subnet with room; these have the addresses",
					"aws ec2 describe-network-interfaces --filters Name=subnet-id,Values="+q.m.SubnetID+" --query 'NetworkInterfaces[].[NetworkInterfaceId,Status,Description]'"+q.at())
			},
		},
		{
			by: node.ByIAM, code: node.CauseNoProfile, rows: []string{"no-profile"}, data: node.CauseNoProfile,
			when: func(q *question) bool { return q.runs() && q.m.ProfileARN == "" }, component: instance,
			text: says("the instance has no instance profile, so it has no role"),
			propose: func(q *question) []advice.Fix {
				return oneSketch("set PROFILE to the name of an instance profile with a node's role (aws iam list-instance-profiles --query 'InstanceProfiles[].[InstanceProfileName,Roles[0].RoleName]' --output text)",
					"aws ec2 associate-iam-instance-profile --instance-id "+q.e.Instance+" --iam-instance-profile Name=$PROFILE"+q.at())
			},
		},
		{
			by: node.ByIAM, code: node.CauseNotTrusted, rows: []string{"trust"}, data: node.CauseNotTrusted,
			when: (*question).runs, component: func(q *question) string { return q.m.RoleARN },
			text:    says("the trust policy of the role does not let ec2.amazonaws.com assume it"),
			propose: func(q *question) []advice.Fix { return q.x.trusting(q.m.RoleARN, "ec2.amazonaws.com") },
		},
		{by: node.ByCluster, code: codeNoCNI, tests: "TestANodeWithoutCNI"},

		// What a cluster has decided about a token.
		{by: node.ByCluster, code: codeUnauthorized, rows: []string{"not-mapped", "mapped-profile", "mapped-path", "mapped-account", "mapping-unreadable"}, propose: func(q *question) []advice.Fix {
			return q.x.mapRole(context.Background(), q.e.Region, q.d.Subject)
		}},
		{by: node.ByCluster, code: codeStaleEntry, tests: "TestUnauthorized", propose: func(q *question) []advice.Fix {
			return q.x.replaceEntry(q.e.Region, q.d.Subject)
		}},
		{by: node.ByImage, code: codeWrongCluster, rows: []string{"other-cluster"}, propose: func(q *question) []advice.Fix {
			return q.x.relaunch(q.e, q.m, q.d.Subject.Named, q.d.Subject.Cluster)
		}},

		// What the network has decided: internal/advice tries changes.
		{by: node.ByNetwork, code: reach.CodeGroupNoRules, rows: []string{"sg-egress"}},
		{by: node.ByNetwork, code: reach.CodeGroupMismatch, rows: []string{"cluster-sg-ingress", "endpoint-group"}},
		{by: node.ByNetwork, code: reach.CodeGroupReferences, tests: "TestPrintedFixesHold"},
		{by: node.ByNetwork, code: reach.CodeACL, rows: []string{"nacl-egress", "nacl-ingress"}},
		{by: node.ByNetwork, code: reach.CodeNoRoute, rows: []string{
			"no-route", "no-eks-endpoint", "no-ecr-api-endpoint", "no-ecr-dkr-endpoint", "no-s3-endpoint", "endpoint-private-dns", "no-ec2-endpoint", "dns-hostnames",
		}},
		{by: node.ByNetwork, code: reach.CodeBadStateRoute, tests: "TestPrintedFixesHold"},
		{by: node.ByNetwork, code: reach.CodeNotRFC1918Egress, rows: []string{"private-endpoint"}},
		{by: node.ByNetwork, code: reach.CodePublicForEgress, rows: []string{"no-public-address"}},
		{by: node.ByNetwork, code: reach.CodePrivateForIngress, tests: "TestPrintedFixesHold"},
		{by: node.ByNetwork, code: reach.CodeName, rows: []string{"dns-support"}},
		{by: node.ByNetwork, code: reach.CodeNoDestination, rows: []string{"public-cidrs"}},
		{by: node.ByNetwork, code: reach.CodeSourceDestCheck, tests: "TestPrintedFixesHold"},
		{by: node.ByNetwork, code: reach.CodeBadState, tests: "TestPrintedFixesHold"},

		// What IAM has decided: the policies of nodes that AWS manages, or internal/policy.
		{by: node.ByIAM, code: "UnauthorizedOperation", rows: []string{"no-worker-policy", "no-cni-policy", "endpoint-policy"}},
		{by: node.ByIAM, code: "AccessDeniedException", rows: []string{"no-registry-policy", "session-policy"}},
		{by: node.ByIAM, code: "provider", rows: []string{"pod-provider"}},

		// What Kubernetes reports about nodes and pods.
		{by: node.ByKubernetes, code: "VersionSkew", rows: []string{"kubelet-newer", "kubelet-old"}},
		{by: node.ByKubernetes, code: "Forbidden", rows: []string{"pod-service-account"}},
		{by: node.ByKubernetes, code: "ExceededQuota", rows: []string{"pod-quota"}},
		{by: node.ByKubernetes, code: "Unschedulable", rows: []string{"pod-selector", "type-too-small"}},
		{by: node.ByKubernetes, code: node.CauseNoPodAddress, rows: []string{"subnet-full"}},
		{by: node.ByKubernetes, code: node.CauseImageName, rows: []string{"pod-image-name"}},
		{by: node.ByKubernetes, code: node.CauseImagePull, tests: "TestWhyPod"},
		{by: node.ByKubernetes, code: imageNeverPull, tests: "TestPrintedFixesHold"},
		{by: node.ByRegistry, code: "ImageNotFoundException", tests: "ecr.txtar"},
		{by: node.ByRegistry, code: "RepositoryNotFoundException", tests: "ecr.txtar"},
		{by: node.ByRegistry, code: node.CauseImagePull, tests: "ecr.txtar"},
		{by: node.ByKubernetes, code: "NotFound", tests: "TestWhyPod"},
		{by: node.ByKubernetes, code: "UnboundPersistentVolumeClaim", tests: "TestWhyPod"},
		{by: byFargate, code: fargate.ReasonUnsupported, tests: "fargate.txtar"},
		{by: byFargate, code: fargate.ReasonTooLarge, tests: "fargate.txtar"},
		{by: byFargate, code: fargate.ReasonStorage, tests: "fargate.txtar"},

		// What prevents sessions on machines.
		{by: byInstance, code: codeInstanceOff, tests: "TestWhySession"},
		{by: byInstance, code: codeAgentStopped, tests: "TestWhySession"},
		{by: byInstance, code: codeNoKey, tests: "TestWhySSH"},
		{by: byInstance, code: codeNoPackage, tests: "TestWhySSH"},
		{by: node.ByImage, code: codeNoAgent, tests: "TestWhySession"},
		{by: byInstance, code: codeNoAgent, tests: "TestOlderAgents"},
	}
}

// table is built only once.
var table = causes()

// paged adds the related pages of docs/failures to a reason.
func paged(r *api.Reason) *api.Reason {
	if r == nil {
		return nil
	}
	for i := range table {
		if c := &table[i]; c.by == r.By && c.code == r.Code {
			r.Failures = append(r.Failures, c.rows...)
		}
	}
	return r
}

// hint returns the reason for a step that failed without a decision of the network, IAM or
// the cluster. The program on the node knew only the step's cause, whereas hint can examine
// the rest of the world.
func (x *Explainer) hint(e *api.NodeExplanation, m *machine.Instance, s *node.Step) *api.Reason {
	q := &question{x: x, e: e, m: m, s: s}
	for i := range table {
		c := &table[i]
		if c.text == nil || c.step != "" && c.step != s.Name || c.data != "" && c.data != s.Cause || c.when != nil && !c.when(q) {
			continue
		}
		return &api.Reason{By: c.by, Code: c.code, Component: c.component(q), Text: c.text(q), Fixes: c.propose(q)}
	}
	return nil
}

// proposed returns the fixes for a decision about the identity of an instance.
func (x *Explainer) proposed(account, region string, d *node.Decision) []advice.Fix {
	for i := range table {
		c := &table[i]
		if c.by != d.By || c.code != d.Code || c.propose == nil {
			continue
		}
		q := &question{x: x, d: d, e: &api.NodeExplanation{Instance: d.Subject.Instance, Account: account, Region: region, Cluster: d.Subject.Cluster, Role: d.Subject.Role}}
		if id := d.Subject.Instance; id != "" {
			if m, err := x.cfg.Machines.Instance(id); err == nil {
				q.m = &m
			}
		}
		return c.propose(q)
	}
	return nil
}

func describe(e *api.NodeExplanation, query string) string {
	if e.Cluster == "" {
		return ""
	}
	return "; aws eks describe-cluster --name " + e.Cluster + " --query " + query + " --region " + e.Region + " shows it"
}

// runs reports whether the machine is still there.
func (q *question) runs() bool { return q.m != nil }

// subject returns who asks the cluster to be let in. A machine of Fargate has the ID of its network interface.
func (q *question) subject(plane string) *node.Subject {
	s := subject(plane, q.e.Cluster, q.e.Role, q.m)
	s.Fargate = s.Fargate || strings.HasPrefix(q.e.Instance, "eni-")
	return s
}

// oldBootstrap reports whether user data calls a program that the image no longer has.
func (q *question) oldBootstrap() bool {
	return q.m != nil && q.m.Image.Family == images.AL2023 && strings.Contains(string(unzipped(q.m.UserData)), "/etc/eks/bootstrap.sh")
}

// nodesModified matches a refusal by the API server's NodeRestriction:
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
var nodesModified = regexp.MustCompile(`node "([^"]*)" is not allowed to modify node "([^"]*)"`)

// remap returns the fix that maps the role in aws-auth as a role of nodes.
func (q *question) remap() []advice.Fix {
	plane, err := q.x.planeOf(q.e)
	if err != nil {
		return nil
	}
	s := q.subject(plane)
	if q.x.cfg.EKS.TryNode(context.Background(), plane, q.e.Role, entryType(s)) == nil {
		return nil
	}
	return q.x.editAuth(context.Background(), s, entryType(s))
}

// replaceEntry returns the fix that deletes an access entry that has another owner or type, and creates it again. It
// returns nil if the entry has been corrected since, because the node then retries.
func (x *Explainer) replaceEntry(region string, s *node.Subject) []advice.Fix {
	typ := entryType(s)
	if x.cfg.EKS.TryNode(context.Background(), s.PlaneID, s.Role, typ) == nil {
		return nil
	}
	return advice.Try(func([]advice.Change) error {
		return x.cfg.EKS.TryNodeEntry(context.Background(), s.PlaneID, s.Role, typ, true)
	},
		[]advice.Change{{Kind: advice.ReplaceMapping, Resource: s.Cluster, Value: s.Role}},
		append([]string{"aws eks delete-access-entry --cluster-name " + s.Cluster + " --principal-arn " + s.Role + " --region " + region}, createEntry(region, s, typ)...)...)
}

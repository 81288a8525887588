// Package failures is the table of problems that keep an instance out of its cluster or a pod from running: one
// problem per row, with the symptom that AWS shows, what `drydock why` says about it, and the commands that fix it.
//
// All commands in a row are tested: for each row, test/e2e breaks something, checks the symptom, runs `drydock why`
// and fixes it with the AWS CLI and kubectl. docs/failures is written from the same rows ([Pages]). Names such as
// $SUBNET are shell variables, which the test sets to resources of the row's own.
//
// Pure data; may be imported by tools and tests.
package failures

// Outcome is how far the instance or pod gets despite the fault.
type Outcome string

// The outcomes.
const (
	Out      Outcome = "the node never registers"
	NotReady Outcome = "the node registers but stays NotReady"
	Warned   Outcome = "the node is Ready; `drydock why` warns"
	Pod      Outcome = "the node is Ready, but a pod does not run"
	Session  Outcome = "the node is Ready, but sessions cannot be started on it"
)

// World is a network with a cluster in which a row runs.
type World string

// The worlds.
const (
	// Open is a VPC with public subnets and a cluster whose endpoint is public and
	// private.
	Open World = "open"
	// Closed is a VPC whose only way out are VPC endpoints: for ec2, ecr.api, ecr.dkr, sts, eks and s3. Its cluster's
	// endpoint is public and private.
	Closed World = "closed"
	// Elsewhere is the VPC of Open, for nodes of the cluster of Closed.
	Elsewhere World = "elsewhere"
)

// Own lists the resources that a row has for itself, so that rows do not disturb each other.
type Own uint

// Fields that only some rows have.
const (
	OwnGroup        Own = 1 << iota // $SG, with all outbound traffic allowed and no inbound
	OwnSubnet                       // $SUBNET, public, with instances that get public addresses
	OwnTable                        // $TABLE, the subnet's route table, with a route to the internet
	OwnACL                          // $ACL, the subnet's network ACL, which allows everything
	OwnRole                         // $ROLE and $PROFILE with the same name, with a node's policies, mapped in aws-auth
	OwnRoleUnmapped                 // the same, in neither aws-auth nor an access entry
	OwnRolePath                     // the same, with the path /ops/, mapped without it
	OwnVPC                          // $OWN_VPC, with a subnet like OwnSubnet's
	OwnSmallSubnet                  // $SUBNET, a /28
)

// A Failure is one row.
type Failure struct {
	ID    string
	Class *Class
	Title string
	// Broken says in a sentence what is wrong.
	Broken string
	World  World
	Own    Own
	// Break are the commands that break it, before the instance is launched.
	Break []string
	// UserData is the instance's user data. Empty means none.
	UserData string
	// Launch is the command that launches the instance; empty in rows about pods.
	Launch string
	// After are commands to run after the instance was launched.
	After   []string
	Outcome Outcome
	// Look is a command that shows the symptom, and Symptom a regular expression for what AWS's users see there.
	// Without Look, the symptom is in the logs of the node, which `drydock why` quotes.
	Look, Symptom string
	// Why is the question to ask, without "drydock why".
	Why string
	// Step is the first step that fails (or warns), and Verdict the text below it.
	Step    string
	Verdict []string
	// Fix are the commands that fix it.
	Fix []string
	// Sketch says that no printed fix can be pasted, because only a person knows what is wanted. Other rows are fixed
	// by what `drydock why` prints.
	Sketch bool
	// Restore are commands that undo changes left by the printed fix that would disturb other rows of the same
	// network.
	Restore []string
	// Relaunch says that the fix is another instance, launched with FixedUserData or by FixedLaunch, because user
	// data runs only once.
	Relaunch                   bool
	FixedUserData, FixedLaunch string
	// Sources document the symptom or the fix.
	Sources []string
}

// A Class is a page of docs/failures.
type Class struct {
	Name, Title, About string
}

// All returns the table.
func All() []Failure {
	var out []Failure
	for _, class := range []struct {
		class *Class
		rows  []Failure
	}{
		{&Class{"network", "The network between a node and its cluster", "A node has to reach the cluster's API server and EC2's API on port 443. Security groups, network ACLs and routes silently drop what they do not let through, so the symptom is always a timeout; `drydock why` tells you which of them is the cause."}, network()},
		{&Class{"endpoints", "VPC endpoints in a network without internet access", "In a VPC without internet access, each AWS service that a node calls needs an endpoint, and each endpoint needs its private DNS name, a security group that lets the node in, and a policy that allows the call."}, endpoints()},
		{&Class{"identity", "The node's identity in the cluster", "The API server identifies a node by the IAM role of its instance. An access entry or aws-auth must map that role to a node's user name and groups."}, identity()},
		{&Class{"permissions", "The node role's permissions", "The role needs a trust policy for EC2, and permissions for the EC2 API, the VPC CNI plugin and the registry."}, permissions()},
		{&Class{"boot", "Boot and user data", "User data tells an EKS image which cluster to join. It runs only once, when the instance first boots: to fix wrong user data, replace the instance."}, boot()},
		{&Class{"versions", "Versions and tags", "Problems that do not keep a node out, but should still be fixed."}, versions()},
		{&Class{"pods", "Pods that do not run", "The node is Ready, but a pod on it is not."}, pods()},
		{&Class{"sessions", "Sessions that cannot be started", "`aws ssm start-session` says TargetNotConnected, whatever the reason is: the agent of the instance has no connection to Systems Manager."}, sessions()},
	} {
		for _, f := range class.rows {
			f.Class = class.class
			if f.World == "" {
				f.World = Open
			}
			if f.Why == "" {
				f.Why = "node $INSTANCE"
			}
			out = append(out, f)
		}
	}
	return out
}

// launch is the command that launches instances.
const launch = "aws ec2 run-instances --image-id $AMI --instance-type m5.large --subnet-id $SUBNET --security-group-ids $SG --iam-instance-profile Name=$PROFILE --user-data file://user-data --tag-specifications 'ResourceType=instance,Tags=[{Key=kubernetes.io/cluster/'$CLUSTER',Value=owned}]'"

const console = "aws ec2 get-console-output --latest --output text --instance-id $INSTANCE"

// The user data of nodes.
const (
	nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: $CLUSTER
    apiServerEndpoint: $ENDPOINT
    certificateAuthority: $CA
    cidr: $CIDR
`
	bootstrap = `#!/bin/bash
set -o errexit
/etc/eks/bootstrap.sh $CLUSTER
`
	bootstrapGiven = `#!/bin/bash
set -o errexit
/etc/eks/bootstrap.sh $CLUSTER --apiserver-endpoint $ENDPOINT --b64-cluster-ca $CA
`
)

// mapping returns a command that edits aws-auth with sed.
func mapping(sed string) string {
	return `kubectl get configmap aws-auth --namespace kube-system --output yaml | sed "` + sed + `" | kubectl replace -f -`
}

// Pages of AWS's documentation that several rows cite.
const (
	docTrouble   = "https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#worker-node-fail"
	docGroups    = "https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html"
	docNetwork   = "https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"
	docEndpoint  = "https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html"
	docPrivate   = "https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html"
	docRegistry  = "https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html"
	docAuth      = "https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html"
	docEntries   = "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html"
	docRole      = "https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html"
	docCNIRole   = "https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html"
	docAL2023    = "https://docs.aws.amazon.com/eks/latest/userguide/al2023.html"
	docTemplates = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
	docSkew      = "https://kubernetes.io/releases/version-skew-policy/#kubelet"
	docRepost    = "https://repost.aws/knowledge-center/eks-nodes-fail-cluster-join"
	docBootstrap = "https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2/runtime/bootstrap.sh"
	docNodeadm   = "https://awslabs.github.io/amazon-eks-ami/nodeadm/"
	docIMDS      = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html"
	docAddresses = "https://docs.aws.amazon.com/eks/latest/best-practices/ip-opt.html"
	docMaxPods   = "https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html"
	docIRSA      = "https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html"
	docVPCDNS    = "https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html"
	docSSM       = "https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-troubleshooting.html"
	docPods      = "https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/"
)

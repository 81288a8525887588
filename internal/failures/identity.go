package failures

func identity() []Failure {
	const unauthorized = `Unauthorized`
	return []Failure{
		{
			ID: "not-mapped", Title: "The cluster does not know the node's role", Broken: "The node's role is neither in aws-auth nor in an access entry.",
			Own: OwnRoleUnmapped, UserData: nodeConfig, Launch: launch, Outcome: Out, Symptom: unauthorized,
			Step: "identity", Verdict: []string{"because of cluster, Unauthorized, arn:aws:iam::000000000000:role/$ROLE", "fix: aws eks create-access-entry --cluster-name $CLUSTER --principal-arn arn:aws:iam::000000000000:role/$ROLE --type EC2_LINUX"},
			Fix:     []string{"aws eks create-access-entry --cluster-name $CLUSTER --principal-arn $ROLE_ARN --type EC2_LINUX"},
			Sources: []string{docEntries, docTrouble},
		},
		{
			ID: "mapped-profile", Title: "aws-auth names the instance profile", Broken: "The ARN in aws-auth is the instance profile's, not the role's.",
			Own: OwnRole, Break: []string{mapping(`s|:role/$ROLE\"|:instance-profile/$ROLE\"|`)}, UserData: nodeConfig, Launch: launch, Outcome: Out, Symptom: unauthorized,
			Step: "identity", Verdict: []string{"because of cluster, Unauthorized", "arn:aws:iam::000000000000:instance-profile/$ROLE is an instance profile; nodes are identified by their role, arn:aws:iam::000000000000:role/$ROLE"},
			Fix:     []string{mapping(`s|:instance-profile/$ROLE\"|:role/$ROLE\"|`)},
			Sources: []string{docAuth, docTrouble},
		},
		{
			ID: "mapped-path", Title: "aws-auth includes the role's path", Broken: "The role's ARN has a path, and the ARN in aws-auth must be written without it.",
			Own: OwnRolePath, Break: []string{mapping(`s|:role/$ROLE\"|:role/ops/$ROLE\"|`)}, UserData: nodeConfig, Launch: launch, Outcome: Out, Symptom: unauthorized,
			Step: "identity", Verdict: []string{"because of cluster, Unauthorized", "The role has a path, which must be left out in aws-auth: tokens are for arn:aws:iam::000000000000:role/$ROLE"},
			Fix:     []string{mapping(`s|:role/ops/$ROLE\"|:role/$ROLE\"|`)},
			Sources: []string{docAuth, "https://github.com/kubernetes-sigs/aws-iam-authenticator/issues/268"},
		},
		{
			ID: "mapped-account", Title: "aws-auth names another account's role", Broken: "The ARN in aws-auth has the right role name but the wrong account.",
			Own: OwnRole, Break: []string{mapping(`s|000000000000:role/$ROLE\"|111122223333:role/$ROLE\"|`)}, UserData: nodeConfig, Launch: launch, Outcome: Out, Symptom: unauthorized,
			Step: "identity", Verdict: []string{"because of cluster, Unauthorized", "arn:aws:iam::111122223333:role/$ROLE is in another account or not of the same kind as arn:aws:iam::000000000000:role/$ROLE"},
			Fix:     []string{mapping(`s|111122223333:role/$ROLE\"|000000000000:role/$ROLE\"|`)},
			Sources: []string{docAuth},
		},
		{
			ID: "mapped-username", Title: "aws-auth has the wrong username", Broken: "The username in aws-auth is not system:node:{{EC2PrivateDNSName}}, so the cluster identifies the node by the wrong name.",
			Own: OwnRole, Break: []string{mapping(`/$ROLE\"/s|{{EC2PrivateDNSName}}|{{SessionName}}|`)}, UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `nodes \\?"ip-.*is forbidden: (node \\?"i-[0-9a-f]+\\?" is not allowed to modify node|User \\?"system:node:i-[0-9a-f]+\\?" cannot get resource)`,
			Step:    "register", Verdict: []string{"because of cluster, Forbidden", "its username must be system:node:{{EC2PrivateDNSName}}", "fix: kubectl patch configmap aws-auth"},
			Fix:     []string{mapping(`/$ROLE\"/s|{{SessionName}}|{{EC2PrivateDNSName}}|`)},
			Sources: []string{docAuth, "https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction"},
		},
		{
			ID: "mapped-groups", Title: "aws-auth has no groups", Broken: "The groups system:bootstrappers and system:nodes are missing in aws-auth: the cluster recognizes the node but does not let it do anything.",
			Own: OwnRole, Break: []string{mapping(`/$ROLE\"/s|groups: .*]|groups: []|`)}, UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `nodes.* is forbidden: User \\?"system:node:ip-.* cannot (create|get) resource \\?"nodes\\?"`,
			Step:    "register", Verdict: []string{"because of cluster, Forbidden", "in neither of the groups system:bootstrappers and system:nodes", "fix: kubectl patch configmap aws-auth"},
			Fix:     []string{mapping(`/$ROLE\"/s|groups: \[\]|groups: [system:bootstrappers, system:nodes]|`)},
			Sources: []string{docAuth},
		},
		{
			ID: "entry-type", Title: "The access entry has the wrong type", Broken: "The role's access entry has type STANDARD, which is for people, instead of EC2_LINUX.",
			Own: OwnRoleUnmapped, Break: []string{"aws eks create-access-entry --cluster-name $CLUSTER --principal-arn $ROLE_ARN --type STANDARD"}, UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `forbidden: User \\?"arn:aws:sts::000000000000:assumed-role/w4-entry-type/i-[0-9a-f]+\\?" cannot`,
			Step:    "register", Verdict: []string{"because of cluster, Forbidden", "the type of its access entry is not EC2_LINUX", "fix: aws eks delete-access-entry --cluster-name $CLUSTER --principal-arn $ROLE_ARN"},
			Fix: []string{
				"aws eks delete-access-entry --cluster-name $CLUSTER --principal-arn $ROLE_ARN",
				"aws eks create-access-entry --cluster-name $CLUSTER --principal-arn $ROLE_ARN --type EC2_LINUX",
			},
			Sources: []string{docEntries},
		},
		{
			ID: "mapping-unreadable", Title: "aws-auth is not YAML", Broken: "mapRoles in aws-auth cannot be parsed, so no role is mapped; the cluster's creator still has access through an access entry.",
			World: Closed, Break: []string{`kubectl patch configmap aws-auth --namespace kube-system --patch '{"data":{"mapRoles":"- rolearn: [\n"}}'`}, UserData: nodeConfig, Launch: launch, Outcome: Out, Symptom: unauthorized,
			Step: "identity", Verdict: []string{"because of cluster, Unauthorized", "aws-auth cannot be parsed and maps no roles: mapRoles: "},
			Fix:     []string{`kubectl patch configmap aws-auth --namespace kube-system --patch '{"data":{"mapRoles":"- rolearn: '$ROLE_ARN'\n  username: system:node:{{EC2PrivateDNSName}}\n  groups: [system:bootstrappers, system:nodes]\n"}}'`},
			Sources: []string{docAuth, docTrouble},
		},
		{
			ID: "other-cluster", Title: "A token for another cluster", Broken: "User data has the right endpoint and certificate authority but the wrong cluster name, and the node's token is for that name.",
			UserData: `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: elsewhere
    apiServerEndpoint: $ENDPOINT
    certificateAuthority: $CA
    cidr: $CIDR
`, Launch: launch, Outcome: Out, Symptom: unauthorized,
			Step: "identity", Verdict: []string{"because of image, WrongClusterName, user data of $INSTANCE", "user data names the cluster elsewhere"},
			Relaunch: true, FixedUserData: nodeConfig,
			Sources: []string{docNodeadm, "https://github.com/kubernetes-sigs/aws-iam-authenticator#how-does-it-work"},
		},
	}
}

func permissions() []Failure {
	return []Failure{
		{
			ID: "no-profile", Title: "An instance without an instance profile", Broken: "The instance has no IAM role at all.",
			UserData: nodeConfig, Outcome: Out,
			Launch:  "aws ec2 run-instances --image-id $AMI --instance-type m5.large --subnet-id $SUBNET --security-group-ids $SG --user-data file://user-data",
			Symptom: `failed to refresh cached credentials`,
			Step:    "private-dns-name", Verdict: []string{"because of IAM, NoInstanceProfile, $INSTANCE", "aws ec2 associate-iam-instance-profile --instance-id $INSTANCE"},
			Fix:     []string{"aws ec2 associate-iam-instance-profile --instance-id $INSTANCE --iam-instance-profile Name=$PROFILE"},
			Sources: []string{docRole, docTrouble},
		},
		{
			ID: "no-worker-policy", Title: "The role lacks AmazonEKSWorkerNodePolicy", Broken: "The node may not describe itself.",
			Own:      OwnRole,
			Break:    []string{"aws iam detach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy", "aws iam detach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `api error UnauthorizedOperation: You are not authorized to perform this operation\. User: arn:aws:sts::000000000000:assumed-role/w4-no-worker-policy/i-[0-9a-f]+ is not authorized to perform: ec2:DescribeInstances`,
			Step:    "private-dns-name", Verdict: []string{"because of IAM, UnauthorizedOperation, ec2:DescribeInstances", "fix: aws iam attach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"},
			Fix:     []string{"aws iam attach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy", "aws iam attach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
			Sources: []string{docRole},
		},
		{
			ID: "no-describe-cluster", Title: "bootstrap.sh may not describe the cluster", Broken: "If it is not given the endpoint and certificate authority, bootstrap.sh asks EKS for them, which the node's role may not do.",
			Own:      OwnRole,
			Break:    []string{"aws iam detach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"},
			UserData: bootstrap, Launch: al2(launch), Outcome: Out,
			Look: console, Symptom: `An error occurred \(AccessDeniedException\) when calling the DescribeCluster operation: User: arn:aws:sts::000000000000:assumed-role/w4-no-describe-cluster/`,
			Step: "describe-cluster", Verdict: []string{"because of IAM, AccessDeniedException, eks:DescribeCluster", "AmazonEKSWorkerNodePolicy"},
			Fix:      []string{"aws iam attach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"},
			Relaunch: true, FixedUserData: bootstrap,
			Sources: []string{docRole, docBootstrap},
		},
		{
			ID: "no-cni-policy", Title: "The role lacks AmazonEKS_CNI_Policy", Broken: "The VPC CNI plugin may not create network interfaces or assign addresses.",
			Own:      OwnRole,
			Break:    []string{"aws iam detach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
			UserData: nodeConfig, Launch: launch, Outcome: NotReady,
			Look: "kubectl describe node $NODE", Symptom: `NetworkPluginNotReady.*cni plugin not initialized`,
			Step: "network", Verdict: []string{"UnauthorizedOperation", "because of IAM, UnauthorizedOperation, ec2:", "AmazonEKS_CNI_Policy"},
			Fix:     []string{"aws iam attach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
			Sources: []string{docCNIRole},
		},
		{
			ID: "no-registry-policy", Title: "The role lacks the registry policy", Broken: "The node may not pull images from Amazon ECR.",
			Own:      OwnRole,
			Break:    []string{"aws iam detach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly"},
			UserData: nodeConfig, Launch: launch, Outcome: NotReady,
			Look: "kubectl describe node $NODE", Symptom: `NetworkPluginNotReady.*cni plugin not initialized`,
			Step: "image", Verdict: []string{"no basic auth credentials", "because of IAM, AccessDeniedException, ecr:GetAuthorizationToken", "fix: aws iam attach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly"},
			Fix:     []string{"aws iam attach-role-policy --role-name $ROLE --policy-arn arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly"},
			Sources: []string{docRole},
		},
		{
			ID: "trust", Title: "The role does not trust EC2", Broken: "The role's trust policy names another service, so instances get no credentials for the role.",
			Own:      OwnRole,
			Break:    []string{`aws iam update-assume-role-policy --role-name $ROLE --policy-document '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ecs.amazonaws.com"},"Action":"sts:AssumeRole"}]}'`},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `failed to refresh cached credentials`,
			Step:    "private-dns-name", Verdict: []string{"because of IAM, AssumeRoleUnauthorizedAccess, $ROLE_ARN", "fix: aws iam update-assume-role-policy --role-name $ROLE"},
			Fix:     []string{`aws iam update-assume-role-policy --role-name $ROLE --policy-document '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'`},
			Sources: []string{docRole, "https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html"},
		},
	}
}

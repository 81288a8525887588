package failures

import "strings"

// al2 launches an image of Amazon Linux 2 instead.
func al2(command string) string { return strings.Replace(command, "$AMI", "$AMI_AL2", 1) }

func boot() []Failure {
	return []Failure{
		{
			ID: "imds-off", Title: "The metadata service is off", Broken: "The instance was launched with its metadata service disabled, so it cannot get its user data and credentials.",
			UserData: nodeConfig, Launch: launch + " --metadata-options HttpEndpoint=disabled", Outcome: Out, Symptom: `instance metadata service`,
			Step: "metadata", Verdict: []string{"because of EC2, MetadataOff, $INSTANCE", "fix: aws ec2 modify-instance-metadata-options --instance-id $INSTANCE --http-endpoint enabled"},
			Fix:     []string{"aws ec2 modify-instance-metadata-options --instance-id $INSTANCE --http-endpoint enabled", "aws ec2 reboot-instances --instance-ids $INSTANCE"},
			Sources: []string{docIMDS},
		},
		{
			ID: "imds-v1", Title: "A script without a metadata token", Broken: "The instance's metadata service requires tokens (IMDSv2), and the user data script does not use one.",
			UserData: `#!/bin/bash
set -o errexit
ID=$$(curl --fail --silent --show-error http://169.254.169.254/latest/meta-data/instance-id)
/etc/eks/bootstrap.sh $CLUSTER
`, Launch: al2(launch) + " --metadata-options HttpTokens=required", Outcome: Out,
			Look: console, Symptom: `curl: \(22\) The requested URL returned error: 401`,
			Step: "script", Verdict: []string{"because of image, ScriptFailed"},
			Fix:      []string{"aws ec2 modify-instance-metadata-options --instance-id $INSTANCE --http-tokens optional"},
			Relaunch: true, FixedLaunch: al2(launch) + " --metadata-options HttpTokens=optional",
			Sources: []string{docIMDS},
		},
		{
			ID: "no-user-data", Title: "No user data", Broken: "The instance has no user data that names its cluster.",
			Launch: strings.Replace(launch, " --user-data file://user-data", "", 1), Outcome: Out, Symptom: `no cluster|no user data|user data`,
			Step: "user-data", Verdict: []string{"because of image, UserData", "aws ec2 terminate-instances --instance-ids $INSTANCE"},
			Relaunch: true, FixedUserData: nodeConfig, FixedLaunch: launch,
			Sources: []string{docTemplates},
		},
		{
			ID: "wrong-name", Title: "bootstrap.sh with the wrong cluster name", Broken: "There is no cluster with that name.",
			UserData: strings.Replace(bootstrap, "$CLUSTER", "w5", 1), Launch: al2(launch), Outcome: Out,
			Look: console, Symptom: `An error occurred \(ResourceNotFoundException\) when calling the DescribeCluster operation: No cluster found for name: w5\.`,
			Step: "describe-cluster", Verdict: []string{"because of image, NoSuchCluster"},
			Relaunch: true, FixedUserData: bootstrap,
			Sources: []string{docBootstrap, docTrouble},
		},
		{
			ID: "bootstrap-on-al2023", Title: "bootstrap.sh on Amazon Linux 2023", Broken: "Amazon Linux 2023 images are configured by nodeadm; their bootstrap.sh only reports that it was removed.",
			UserData: bootstrap, Launch: launch, Outcome: Out,
			Look: console, Symptom: `bootstrap\.sh has been removed from AL2023-based EKS AMIs`,
			Step: "script", Verdict: []string{"because of image, BootstrapRemoved", "aws ec2 terminate-instances --instance-ids $INSTANCE"},
			Relaunch: true, FixedUserData: nodeConfig,
			Sources: []string{docAL2023},
		},
		{
			ID: "wrong-authority", Title: "Another cluster's certificate authority", Broken: "The certificate authority in user data did not sign the endpoint's certificate.",
			UserData: strings.Replace(nodeConfig, "$CA", "$OTHER_CA", 1), Launch: launch, Outcome: Out, Symptom: `x509: certificate signed by unknown authority`,
			Step: "endpoint", Verdict: []string{"because of image, WrongAuthority", "aws eks describe-cluster --name $CLUSTER --query cluster.certificateAuthority.data"},
			Relaunch: true, FixedUserData: nodeConfig,
			Sources: []string{docNodeadm, docRepost},
		},
		{
			ID: "wrong-endpoint", Title: "The endpoint of a deleted cluster", Broken: "The host name of the endpoint in user data does not resolve.",
			UserData: strings.Replace(nodeConfig, "$ENDPOINT", "https://0123456789ABCDEF0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com", 1), Launch: launch, Outcome: Out, Symptom: `no such host`,
			Step: "dns", Verdict: []string{"because of image, NoSuchEndpoint", "aws eks describe-cluster --name $CLUSTER --query cluster.endpoint"},
			Relaunch: true, FixedUserData: nodeConfig,
			Sources: []string{docNodeadm, docRepost},
		},
		{
			ID: "not-yaml", Title: "A NodeConfig that is not YAML", Broken: "nodeadm cannot read user data.",
			UserData: strings.Replace(nodeConfig, "  cluster:\n", "  cluster: {\n", 1), Launch: launch, Outcome: Out, Symptom: `yaml`,
			Step: "user-data", Verdict: []string{"because of image, UserData"},
			Relaunch: true, FixedUserData: nodeConfig,
			Sources: []string{docNodeadm},
		},
		{
			ID: "shell-syntax", Title: "A script with a syntax error", Broken: "The shell does not run the user data script to its end.",
			UserData: "#!/bin/bash\nif true; then\n/etc/eks/bootstrap.sh $CLUSTER\n", Launch: al2(launch), Outcome: Out,
			Look: console, Symptom: `syntax error`,
			Step: "script", Verdict: []string{"because of image, ScriptFailed"},
			Relaunch: true, FixedUserData: bootstrap,
			Sources: []string{docBootstrap},
		},
		{
			ID: "unknown-command", Title: "A command that the image does not have", Broken: "The user data script exits at the first command that fails, before it gets to bootstrap.sh.",
			UserData: "#!/bin/bash\nset -o errexit\nyumm install -y jq\n/etc/eks/bootstrap.sh $CLUSTER\n", Launch: al2(launch), Outcome: Out,
			Look: console, Symptom: `yumm: command not found`,
			Step: "script", Verdict: []string{"because of image, UnknownCommand"},
			Relaunch: true, FixedUserData: bootstrap,
			Sources: []string{docBootstrap},
		},
	}
}

func versions() []Failure {
	return []Failure{
		{
			ID: "kubelet-newer", Title: "A kubelet newer than the control plane", Broken: "The image has a later Kubernetes version than the cluster.",
			UserData: nodeConfig, Launch: strings.Replace(launch, "$AMI", "$AMI_NEWER", 1), Outcome: Warned,
			Look: "kubectl get node $NODE", Symptom: `v1\.35\.`,
			Step: "version", Verdict: []string{"because of Kubernetes, VersionSkew", "newer than the control plane"},
			Relaunch: true, FixedUserData: nodeConfig, FixedLaunch: launch,
			Sources: []string{docSkew, "https://github.com/awslabs/amazon-eks-ami/issues/2119"},
		},
		{
			ID: "kubelet-old", Title: "A kubelet that is too old", Broken: "The image's Kubernetes version is more than three minor versions behind the cluster's.",
			UserData: bootstrap, Launch: strings.Replace(launch, "$AMI", "$AMI_OLDER", 1), Outcome: Warned,
			Look: "kubectl get node $NODE", Symptom: `v1\.30\.`,
			Step: "version", Verdict: []string{"because of Kubernetes, VersionSkew", "more than three minor versions older"},
			Relaunch: true, FixedUserData: nodeConfig, FixedLaunch: launch,
			Sources: []string{docSkew},
		},
		{
			ID: "cluster-tag", Title: "The instance lacks the cluster's tag", Broken: "Older cloud providers found nodes by the tag kubernetes.io/cluster/NAME; current ones find them by their ID.",
			UserData: nodeConfig, Outcome: Warned,
			Launch: "aws ec2 run-instances --image-id $AMI --instance-type m5.large --subnet-id $SUBNET --security-group-ids $SG --iam-instance-profile Name=$PROFILE --user-data file://user-data",
			Look:   "aws ec2 describe-instances --instance-ids $INSTANCE --query 'Reservations[].Instances[].Tags[].Key'", Symptom: `^\[\]`,
			Step: "the instance has no tag", Verdict: []string{"the instance has no tag kubernetes.io/cluster/$CLUSTER"},
			Fix:     []string{"aws ec2 create-tags --resources $INSTANCE --tags Key=kubernetes.io/cluster/$CLUSTER,Value=owned"},
			Sources: []string{"https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html", docTrouble},
		},
	}
}

package node

// A Provenance names the sources for how a step of an instance's life works, and says which parts are assumptions:
// those without a source, or different from AWS.
type Provenance struct {
	Step    string
	Sources []string
	// Assumed are sentences for docs/compatibility.md.
	Assumed []string
}

// Provenances returns one for each of [Steps], in the same order.
func Provenances() []Provenance {
	return []Provenance{
		{Step: StepBoot,
			Sources: []string{"https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-console.html"},
			Assumed: []string{
				"the console shows only cloud-init's lines: the kernel's and systemd's are missing, and nodeadm's are only in the journal",
				"how long a boot takes: the timing table uses commonly seen values",
			}},
		{Step: StepMetadata,
			Sources: []string{"https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html", "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html"},
			Assumed: []string{
				"all dated versions of the metadata have the same categories",
				"an instance without the service boots without user data and credentials, and never retries",
			}},
		{Step: StepDescribe,
			Sources: []string{"https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2/runtime/bootstrap.sh", "https://github.com/boto/botocore/blob/develop/botocore/exceptions.py"},
			Assumed: []string{"each of bootstrap.sh's three attempts is one call: the AWS CLI's own retries, and their time, are left out"}},
		{Step: StepScript,
			Sources: []string{"https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html"},
			Assumed: []string{
				"which commands an image has: those that are simulated, and packages of its repository, by name",
				"a script's limits for CPU, memory and files, which a real machine does not have",
			}},
		{Step: StepUserData,
			Sources: []string{"https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/configprovider/mime.go", "https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2023/runtime/bootstrap.sh"},
			Assumed: []string{"Bottlerocket's settings other than those of Kubernetes have no effect, except `host-containers.admin.enabled` and `host-containers.control.enabled`"}},
		{Step: StepName,
			Sources: []string{"https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go", "https://github.com/awslabs/amazon-eks-ami/blob/main/templates/al2/runtime/bin/private-dns-name"},
			Assumed: []string{"nodeadm retries forever: the real one gives up after some minutes and retries only after a reboot"}},
		{Step: StepBootstrap,
			Sources: []string{"https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go", "https://github.com/awslabs/amazon-eks-ami/blob/main/templates/shared/runtime/eni-max-pods.txt"},
			Assumed: []string{"the memory that hypervisor, firmware and kernel reserve: 200 MiB and 2.5 %; AWS publishes no formula"}},
		{Step: StepCredentials,
			Sources: []string{"https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html#troubleshoot_iam-ec2_errors-info-doc"},
			Assumed: []string{"the SDK's words around an error of the metadata service, and that a profile associated later is seen at the next attempt"}},
		{Step: StepDNS,
			Sources: []string{"https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html", "https://docs.aws.amazon.com/vpc/latest/userguide/vpc-dns.html"},
			Assumed: []string{"the public addresses of endpoints and of AWS's services: each name has one, which does not change"}},
		{Step: StepEndpoint,
			Sources: []string{"https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html", "https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html"},
			Assumed: []string{"dropped packets lead to a timeout, which the timing table shortens"}},
		{Step: StepIdentity,
			Sources: []string{"https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go", "https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html"},
			Assumed: []string{"a changed access entry or aws-auth takes effect at once; EKS says only that it takes a while"}},
		{Step: StepRegister,
			Sources: []string{"https://kubernetes.io/docs/reference/access-authn-authz/node/", "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubelet_node_status.go"},
			Assumed: []string{"the cloud provider's part of a Node (addresses, zone, provider ID) is there from the start, so no node has the taint uninitialized"}},
		{Step: StepVersion,
			Sources: []string{"https://kubernetes.io/releases/version-skew-policy/#kubelet", "https://github.com/awslabs/amazon-eks-ami/issues/2119"},
			Assumed: []string{"a kubelet that is too new or too old joins, and nothing breaks later"}},
		{Step: StepImage,
			Sources: []string{"https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html", "https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html", "https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/images/image_manager.go"},
			Assumed: []string{
				"containerd's words for a registry or bucket that cannot be reached",
				"the bucket of a registry's layers is the starport bucket of its region, and registries of accounts that Drydock does not have let everybody pull, and have every image",
			}},
		{Step: StepNetwork,
			Sources: []string{"https://github.com/aws/amazon-vpc-cni-k8s/blob/master/pkg/ipamd/ipamd.go", "https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/iam-policy.md"},
			Assumed: []string{"the order of the plugin's EC2 calls when it starts", "if a subnet is full, the plugin retries after 15 s; the real one waits two minutes", "aws-node is not restarted by its liveness probe"}},
		{Step: StepReady,
			Sources: []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubelet_node_status.go"},
			Assumed: []string{"kube-proxy and CoreDNS pods run, but do nothing", "heartbeats of nodes in clusters of more than 250 are rarer than a real kubelet's"}},
		{Step: StepLogs,
			Sources: []string{"https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html", "https://docs.fluentbit.io/manual/pipeline/outputs/cloudwatch"},
			Assumed: []string{"the names of streams and the records before the first filter: as in examples of the documentation and in public issues"}},
		{Step: StepStop,
			Sources: []string{"https://github.com/kubernetes/cloud-provider/blob/master/controllers/nodelifecycle/node_lifecycle_controller.go"},
			Assumed: []string{"a machine is off at once, without a shutdown"}},
	}
}

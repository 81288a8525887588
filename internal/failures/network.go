package failures

import "strings"

func network() []Failure {
	return []Failure{
		{
			ID: "sg-egress", Title: "The node's security group has no egress rules", Broken: "The instance's security group has no rule that allows outbound traffic to port 443.",
			Own:      OwnGroup,
			Break:    []string{"aws ec2 revoke-security-group-egress --group-id $SG --ip-permissions 'IpProtocol=-1,IpRanges=[{CidrIp=0.0.0.0/0}]'"},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, SG_HAS_NO_RULES, $SG", "fix: aws ec2 authorize-security-group-egress"},
			Fix:     []string{"aws ec2 authorize-security-group-egress --group-id $SG --protocol tcp --port 443 --cidr 0.0.0.0/0", "aws ec2 authorize-security-group-ingress --group-id $CLUSTER_SG --protocol tcp --port 443 --source-group $SG"},
			Sources: []string{docGroups, docTrouble},
		},
		{
			ID: "cluster-sg-ingress", Title: "The cluster's security group does not let the node in", Broken: "The endpoint is also private, so its name resolves to the cluster's network interfaces, whose security group has no rule for the node's security group.",
			Own:      OwnGroup,
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `dial tcp 10\.40\.[0-9.]+:443: i/o timeout`,
			Step:    "endpoint", Verdict: []string{"i/o timeout", "because of network, ENI_SG_RULES_MISMATCH, $CLUSTER_SG", "fix: aws ec2 authorize-security-group-ingress --group-id $CLUSTER_SG"},
			Fix:     []string{"aws ec2 authorize-security-group-ingress --group-id $CLUSTER_SG --protocol tcp --port 443 --source-group $SG"},
			Sources: []string{docGroups, docTrouble},
		},
		{
			ID: "nacl-egress", Title: "A network ACL denies outbound traffic", Broken: "The network ACL of the node's subnet denies outbound traffic to port 443.",
			Own:      OwnSubnet | OwnACL,
			Break:    []string{"aws ec2 create-network-acl-entry --network-acl-id $ACL --egress --rule-number 1 --protocol tcp --port-range From=443,To=443 --cidr-block 0.0.0.0/0 --rule-action deny"},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, SUBNET_ACL_RESTRICTION, $ACL", "aws ec2 delete-network-acl-entry --network-acl-id $ACL"},
			Fix:     []string{"aws ec2 delete-network-acl-entry --network-acl-id $ACL --egress --rule-number 1"},
			Sources: []string{"https://docs.aws.amazon.com/vpc/latest/userguide/vpc-network-acls.html", docRepost},
		},
		{
			ID: "nacl-ingress", Title: "A network ACL denies the answers", Broken: "Network ACLs are stateless: answers arrive at high ports and need a rule of their own, and the subnet's ACL denies them.",
			Own:      OwnSubnet | OwnACL,
			Break:    []string{"aws ec2 create-network-acl-entry --network-acl-id $ACL --ingress --rule-number 1 --protocol tcp --port-range From=1024,To=65535 --cidr-block 0.0.0.0/0 --rule-action deny"},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, SUBNET_ACL_RESTRICTION, $ACL", "aws ec2 delete-network-acl-entry --network-acl-id $ACL"},
			Fix:     []string{"aws ec2 delete-network-acl-entry --network-acl-id $ACL --ingress --rule-number 1"},
			Sources: []string{"https://docs.aws.amazon.com/vpc/latest/userguide/vpc-network-acls.html#nacl-ephemeral-ports", docRepost},
		},
		{
			ID: "no-route", Title: "A subnet without a route to the internet", Broken: "The route table of the node's subnet has no route to the internet through a NAT gateway or an internet gateway.",
			Own:      OwnSubnet | OwnTable,
			Break:    []string{"aws ec2 delete-route --route-table-id $TABLE --destination-cidr-block 0.0.0.0/0"},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, NO_ROUTE_TO_DESTINATION, $TABLE", "fix: aws ec2 create-route --route-table-id $TABLE"},
			Fix:     []string{"aws ec2 create-route --route-table-id $TABLE --destination-cidr-block 0.0.0.0/0 --gateway-id $IGW"},
			Sources: []string{docNetwork, docTrouble},
		},
		{
			ID: "no-public-address", Title: "A public subnet, but no public address", Broken: "The subnet reaches the internet through an internet gateway, which requires a public address, and the instance has none.",
			Own:      OwnSubnet,
			Break:    []string{"aws ec2 modify-subnet-attribute --subnet-id $SUBNET --no-map-public-ip-on-launch"},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, IGW_PUBLIC_IP_ASSOCIATION_FOR_EGRESS", "aws ec2 associate-address"},
			Fix: []string{
				"aws ec2 associate-address --instance-id $INSTANCE --allocation-id $(aws ec2 allocate-address --query AllocationId --output text)",
			},
			Sources: []string{"https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#worker-node-fail", docNetwork},
		},
		{
			ID: "dns-support", Title: "The VPC's DNS server is off", Broken: "enableDnsSupport of the node's VPC is false: no name resolves.",
			Own:      OwnVPC,
			Break:    []string{"aws ec2 modify-vpc-attribute --vpc-id $OWN_VPC --enable-dns-support Value=false"},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*lookup ec2\.us-east-1\.amazonaws\.com.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, NAME_NOT_RESOLVED, $OWN_VPC", "fix: aws ec2 modify-vpc-attribute --vpc-id $OWN_VPC --enable-dns-support"},
			Fix:     []string{"aws ec2 modify-vpc-attribute --vpc-id $OWN_VPC --enable-dns-support Value=true"},
			Sources: []string{docNetwork, docVPCDNS},
		},
		{
			ID: "private-endpoint", Title: "A private endpoint and a node in another VPC", Broken: "The cluster's endpoint is private only, and the node is in another VPC: the name resolves to private addresses that the node has no route to.",
			World:    Elsewhere,
			Break:    []string{"aws eks update-cluster-config --name $CLUSTER --resources-vpc-config endpointPublicAccess=false,endpointPrivateAccess=true && aws eks wait cluster-active --name $CLUSTER"},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `dial tcp [0-9.]+:443: i/o timeout`,
			Step:    "endpoint", Verdict: []string{"i/o timeout", "because of network, IGW_DESTINATION_ADDRESS_NOT_IN_RFC1918_EGRESS", "fix: PEERING="},
			Fix:     []string{"aws eks update-cluster-config --name $CLUSTER --resources-vpc-config endpointPublicAccess=true && aws eks wait cluster-active --name $CLUSTER"},
			Restore: []string{"aws eks update-cluster-config --name $CLUSTER --resources-vpc-config endpointPublicAccess=true && aws eks wait cluster-active --name $CLUSTER"},
			Sources: []string{docEndpoint},
		},
		{
			ID: "public-cidrs", Title: "A public endpoint that does not admit the node", Broken: "The endpoint's public access CIDRs do not include the node's public address.",
			World:    Elsewhere,
			Break:    []string{"aws eks update-cluster-config --name $CLUSTER --resources-vpc-config publicAccessCidrs=203.0.113.0/24 && aws eks wait cluster-active --name $CLUSTER"},
			UserData: nodeConfig, Launch: launch, Outcome: Out,
			Symptom: `dial tcp [0-9.]+:443: i/o timeout`,
			Step:    "endpoint", Verdict: []string{"i/o timeout", "because of network, ", "203.0.113.0/24", "fix: aws eks update-cluster-config --name $CLUSTER"},
			Fix:     []string{"aws eks update-cluster-config --name $CLUSTER --resources-vpc-config publicAccessCidrs=0.0.0.0/0 && aws eks wait cluster-active --name $CLUSTER"},
			Sources: []string{docEndpoint},
		},
	}
}

// closed returns a row of the closed network with one endpoint that fails.
func closed(f Failure) Failure {
	f.World = Closed
	if f.UserData == "" {
		f.UserData = nodeConfig
	}
	if f.Launch == "" {
		f.Launch = launch
	}
	f.Sources = append(f.Sources, docPrivate)
	return f
}

// deleted and created return the commands that delete a service's endpoint and create it again.
func deleted(service string) []string {
	return []string{"aws ec2 delete-vpc-endpoints --vpc-endpoint-ids " + endpointOf(service)}
}

func created(service string) []string {
	if service == "s3" {
		return []string{"aws ec2 create-vpc-endpoint --vpc-id $VPC --service-name com.amazonaws.us-east-1.s3 --route-table-ids $TABLE"}
	}
	return []string{"aws ec2 create-vpc-endpoint --vpc-id $VPC --vpc-endpoint-type Interface --service-name com.amazonaws.us-east-1." + service + " --subnet-ids $SUBNET --security-group-ids $ENDPOINT_SG --private-dns-enabled"}
}

// endpointOf returns the variable that holds the ID of a service's endpoint: $ECR_API_ENDPOINT.
func endpointOf(service string) string { return "$" + EndpointVariable(service) }

// EndpointVariable returns the name of the variable that holds the ID of a service's endpoint.
func EndpointVariable(service string) string {
	return strings.ToUpper(strings.ReplaceAll(service, ".", "_")) + "_ENDPOINT"
}

func endpoints() []Failure {
	return []Failure{
		closed(Failure{
			ID: "no-eks-endpoint", Title: "No endpoint for EKS, and bootstrap.sh without the cluster's details", Broken: "bootstrap.sh asks EKS for the endpoint and the certificate authority if it is not given them.",
			Break: deleted("eks"), UserData: bootstrap, Launch: al2(launch), Outcome: Out,
			Look: console, Symptom: `Connect timeout on endpoint URL: "https://eks\.us-east-1\.amazonaws\.com/clusters/`,
			Step: "describe-cluster", Verdict: []string{"because of network, NO_ROUTE_TO_DESTINATION, $TABLE", "aws ec2 create-vpc-endpoint"},
			Fix: created("eks"), Relaunch: true, FixedUserData: bootstrapGiven,
			Sources: []string{docBootstrap},
		}),
		closed(Failure{
			ID: "no-ecr-api-endpoint", Title: "No endpoint for the registry's API", Broken: "The kubelet's credential provider gets a token from ECR's API before containerd pulls an image.",
			Break: deleted("ecr.api"), Outcome: NotReady,
			Look: "kubectl describe node $NODE", Symptom: `NetworkPluginNotReady.*cni plugin not initialized`,
			Step: "image", Verdict: []string{"because of network, NO_ROUTE_TO_DESTINATION, $TABLE", "aws ec2 create-vpc-endpoint"},
			Fix: created("ecr.api"), Sources: []string{docRegistry},
		}),
		closed(Failure{
			ID: "no-ecr-dkr-endpoint", Title: "No endpoint for the registry", Broken: "containerd asks the registry for an image's manifest.",
			Break: deleted("ecr.dkr"), Outcome: NotReady,
			Look: "kubectl describe node $NODE", Symptom: `NetworkPluginNotReady.*cni plugin not initialized`,
			Step: "image", Verdict: []string{"Failed to pull image", "i/o timeout", "because of network, NO_ROUTE_TO_DESTINATION, $TABLE"},
			Fix: created("ecr.dkr"), Sources: []string{docRegistry},
		}),
		closed(Failure{
			ID: "no-s3-endpoint", Title: "No endpoint for S3", Broken: "The registry redirects containerd to S3 for an image's layers.",
			Break: deleted("s3"), Outcome: NotReady,
			Look: "kubectl describe node $NODE", Symptom: `NetworkPluginNotReady.*cni plugin not initialized`,
			Step: "image", Verdict: []string{"Failed to pull image", "starport-layer-bucket", "because of network, NO_ROUTE_TO_DESTINATION, $TABLE"},
			Fix: created("s3"), Sources: []string{docRegistry},
		}),
		closed(Failure{
			ID: "endpoint-policy", Title: "An endpoint's policy is too tight", Broken: "The policy of the EC2 endpoint does not allow the node's call.",
			Break:   []string{"aws ec2 modify-vpc-endpoint --vpc-endpoint-id " + endpointOf("ec2") + ` --policy-document '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"ec2:DescribeRegions","Resource":"*"}]}'`},
			Outcome: Out,
			Symptom: `UnauthorizedOperation.*no VPC endpoint policy allows the ec2:DescribeInstances action`,
			Step:    "private-dns-name", Verdict: []string{"because of IAM, UnauthorizedOperation, ec2:DescribeInstances", "VPC endpoint policy"},
			Fix:     []string{"aws ec2 modify-vpc-endpoint --vpc-endpoint-id " + endpointOf("ec2") + " --reset-policy"},
			Restore: []string{"aws ec2 modify-vpc-endpoint --vpc-endpoint-id " + endpointOf("ec2") + " --reset-policy"},
			Sources: []string{"https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-endpoints-access.html"},
		}),
		closed(Failure{
			ID: "endpoint-group", Title: "An endpoint's security group is too tight", Broken: "The security group of the endpoints has no rule that lets nodes in on port 443.",
			Break:   []string{"aws ec2 revoke-security-group-ingress --group-id $ENDPOINT_SG --protocol tcp --port 443 --cidr 10.50.0.0/16"},
			Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, ENI_SG_RULES_MISMATCH, $ENDPOINT_SG", "fix: aws ec2 authorize-security-group-ingress --group-id $ENDPOINT_SG"},
			Fix:     []string{"aws ec2 authorize-security-group-ingress --group-id $ENDPOINT_SG --protocol tcp --port 443 --cidr 10.50.0.0/16"},
			Sources: []string{"https://docs.aws.amazon.com/vpc/latest/privatelink/create-interface-endpoint.html"},
		}),
		closed(Failure{
			ID: "endpoint-private-dns", Title: "An endpoint without its private DNS name", Broken: "The endpoint exists, but the service's usual name still resolves to its public addresses.",
			Break:   []string{"aws ec2 modify-vpc-endpoint --vpc-endpoint-id " + endpointOf("ec2") + " --no-private-dns-enabled"},
			Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, NO_ROUTE_TO_DESTINATION, $TABLE", "aws ec2 modify-vpc-endpoint"},
			Fix:     []string{"aws ec2 modify-vpc-endpoint --vpc-endpoint-id " + endpointOf("ec2") + " --private-dns-enabled"},
			Sources: []string{"https://docs.aws.amazon.com/vpc/latest/privatelink/create-interface-endpoint.html"},
		}),
		closed(Failure{
			ID: "dns-hostnames", Title: "The VPC has no DNS host names", Broken: "enableDnsHostnames is off, so private DNS names do not resolve to the endpoints.",
			Break:   []string{"aws ec2 modify-vpc-attribute --vpc-id $VPC --enable-dns-hostnames Value=false"},
			Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, ", "aws ec2 modify-vpc-attribute --vpc-id $VPC --enable-dns-hostnames"},
			Fix:     []string{"aws ec2 modify-vpc-attribute --vpc-id $VPC --enable-dns-hostnames Value=true"},
			Sources: []string{docNetwork, docVPCDNS},
		}),
		closed(Failure{
			ID: "no-ec2-endpoint", Title: "No endpoint for EC2", Broken: "Nodes ask EC2 for their own name, and the VPC CNI plugin asks it for interfaces and addresses.",
			Break: deleted("ec2"), Outcome: Out,
			Symptom: `operation error EC2: DescribeInstances.*i/o timeout`,
			Step:    "private-dns-name", Verdict: []string{"because of network, NO_ROUTE_TO_DESTINATION, $TABLE", "aws ec2 create-vpc-endpoint"},
			Fix: created("ec2"),
		}),
	}
}

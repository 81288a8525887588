package containers

// credentialProviderFile is where EKS's images have the configuration of the kubelet's credential providers.
// https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/image-credential-provider.go
const credentialProviderFile = "/etc/eks/image-credential-provider/config.json"

// credentialProviders returns the configuration that lets the kubelet pull from ECR as the machine's role.
func (i *instance) credentialProviders() map[string]any {
	ecr := map[string]any{
		"name": "ecr-credential-provider", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "defaultCacheDuration": "12h0m0s",
		"matchImages": []string{
			"*.dkr.ecr.*.amazonaws.com", "*.dkr-ecr.*.on.aws", "*.dkr.ecr.*.amazonaws.com.cn", "*.dkr.ecr-fips.*.amazonaws.com", "*.dkr-ecr-fips.*.on.aws",
		},
	}
	if i.fargate != nil { // it has no metadata service
		ecr["env"] = []any{
			map[string]string{"name": "AWS_SHARED_CREDENTIALS_FILE", "value": credentialsFile}, map[string]string{"name": "AWS_EC2_METADATA_DISABLED", "value": "true"},
		}
	}
	return map[string]any{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": []any{ecr}}
}

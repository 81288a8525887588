package containers

// credentialProviderFile is where EKS's images have the configuration of the kubelet's credential providers.
// https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/image-credential-provider.go
const credentialProviderFile = "/etc/eks/image-credential-provider/config.json"

// credentialProviders returns the configuration that lets the kubelet pull from ECR as the instance's role.
func credentialProviders() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
		"providers": []any{map[string]any{
			"name": "ecr-credential-provider", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "defaultCacheDuration": "12h0m0s",
			"matchImages": []string{
				"*.dkr.ecr.*.amazonaws.com", "*.dkr-ecr.*.on.aws", "*.dkr.ecr.*.amazonaws.com.cn", "*.dkr.ecr-fips.*.amazonaws.com", "*.dkr-ecr-fips.*.on.aws",
			},
		}},
	}
}

package programs

// Command returns the program that drydock-node runs when it is called by that name, or nil. Machines use these
// names: see package nodebin.
func Command(name string) func(args []string) int {
	return map[string]func([]string) int{
		"kube-proxy":               runKubeProxy,
		"ecr-credential-provider":  provideCredentials,
		"eks-pod-identity-agent":   runPodIdentityAgent,
		"metrics-server":           runMetricsServer,
		"aws-network-policy-agent": runNetworkPolicyAgent,
	}[name]
}

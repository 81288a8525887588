package reach

// The words for connections of pods that Kubernetes drops. This package knows no pods: others add the explanation to a verdict.
const (
	KindNetworkPolicy = "network-policy"
	CodeNetworkPolicy = "NETWORK_POLICY"
)

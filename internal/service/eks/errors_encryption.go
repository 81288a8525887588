package eks

// [seen] aws-controllers-k8s/community#1175
func errKeyRequired(cluster string) error { return invalidParameter(cluster, "KeyArn is required") }

// [seen] for a key ID in place of an ARN
func errKeyARN(cluster string) error {
	return invalidParameter(cluster, "The keyArn for encryptionConfig is invalid.")
}

// [seen]
func errKeyRegion(cluster string) error {
	return invalidParameter(cluster, "The keyArn for encryptionConfig is scoped to invalid aws region.")
}

// [seen] kubernetes-sigs/cluster-api-provider-aws#2432 (kms:CreateGrant) and
// terraform-aws-modules/terraform-aws-eks#2678 (kms:DescribeKey): the same text for
// keys of all accounts.
func errKeyNotAllowed(cluster, action string) error {
	return invalidRequest(cluster, "User not authorized to perform %s operation", action)
}

// [seen] hashicorp/terraform-provider-aws#19968
func errEncrypted(cluster string) error {
	return invalidParameter(cluster, "Encryption is already enabled on the cluster")
}

// [seen] cloud-custodian/cloud-custodian, tests/data/placebo/test_eks_associate_encryption_config_invalid_kms_key
func errNoKey(cluster, key string) error {
	return invalidParameter(cluster, "The KeyArn in encryptionConfig provider %s is not found.", key)
}

// The three texts below are from memory.
func errKeyNotSymmetric(cluster, key string) error {
	return invalidParameter(cluster, "KMS key %s is not a symmetric key that can encrypt and decrypt data.", key)
}

func errEncryptedResources(cluster string) error {
	return invalidParameter(cluster, "The resources for encryptionConfig are invalid. The only supported value is secrets.")
}

func errManyEncryptionConfigs(cluster string) error {
	return invalidParameter(cluster, "Only one encryptionConfig is supported.")
}

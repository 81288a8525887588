package ecrpublic

import "github.com/drydock-dev/drydock/internal/awsapi/awserr"

// The errors that Amazon ECR also has are in package imagestore. The texts below are from memory.

func errNoRegistry(id string) error {
	return awserr.Newf("RegistryNotFoundException", "The registry with id '%s' does not exist", id)
}

func errRegion(operation string) error {
	return awserr.Newf("UnsupportedCommandException", "%s command is only supported in us-east-1.", operation)
}

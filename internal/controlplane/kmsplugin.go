package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
)

// kmsSocket is the end of the name of the socket on which a plane's KMS plugin listens.
const kmsSocket = ".kms"

func (p *plane) kmsSocket() string { return p.m.besidePath(p.id + kmsSocket) }

// tryKMS checks whether a plane's key works both ways: a plane that can encrypt but not decrypt would not start
// again.
func tryKMS(ctx context.Context, kms KMS, planeID, keyARN string) error {
	probe := []byte("health")
	sealed, err := kms.Encrypt(ctx, planeID, keyARN, probe)
	if err != nil {
		return fmt.Errorf("failed to encrypt data: %w", err)
	}
	opened, err := kms.Decrypt(ctx, planeID, keyARN, sealed)
	if err != nil {
		return fmt.Errorf("failed to decrypt data: %w", err)
	}
	if !bytes.Equal(opened, probe) {
		return errors.New("the decrypted data is not what was encrypted")
	}
	return nil
}

// A kmsPlugin is the KMS plugin (v2) of one API server, like aws-encryption-provider on EKS: gRPC on a unix socket on
// one side, AWS KMS on the other. https://kubernetes.io/docs/tasks/administer-cluster/kms-provider/
type kmsPlugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	planeID string
	keyARN  string
	kms     KMS
	// heard is called with every error of KMS, and with nil if the key was used
	// successfully.
	heard func(error)
}

func serveKMSPlugin(ctx context.Context, path, planeID, keyARN string, kms KMS, heard func(error)) (*unixServer, error) {
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	kmsapi.RegisterKeyManagementServiceServer(server, &kmsPlugin{planeID: planeID, keyARN: keyARN, kms: kms, heard: heard})
	return serveUnix(ctx, path, server.Serve, server.Stop)
}

// Status implements the plugin. The API server calls it once a minute, and without KMS continues encrypting for only
// three minutes.
func (k *kmsPlugin) Status(ctx context.Context, _ *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	out := &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: k.keyARN}
	err := tryKMS(ctx, k.kms, k.planeID, k.keyARN)
	k.heard(err)
	if err != nil {
		out.Healthz = err.Error()
	}
	return out, nil
}

// Encrypt implements the plugin.
func (k *kmsPlugin) Encrypt(ctx context.Context, in *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	out, err := k.kms.Encrypt(ctx, k.planeID, k.keyARN, in.Plaintext)
	if err != nil {
		k.heard(err)
		return nil, fmt.Errorf("failed to encrypt data: %w", err)
	}
	return &kmsapi.EncryptResponse{Ciphertext: out, KeyId: k.keyARN}, nil
}

// Decrypt implements the plugin.
func (k *kmsPlugin) Decrypt(ctx context.Context, in *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	out, err := k.kms.Decrypt(ctx, k.planeID, k.keyARN, in.Ciphertext)
	if err != nil {
		k.heard(err)
		return nil, fmt.Errorf("failed to decrypt data: %w", err)
	}
	return &kmsapi.DecryptResponse{Plaintext: out}, nil
}

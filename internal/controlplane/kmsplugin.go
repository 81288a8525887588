package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
)

// kmsSocket ends the name of the socket on which a plane's KMS plugin listens.
const kmsSocket = ".kms"

func (p *plane) kmsSocket() string { return p.m.besidePath(p.id + kmsSocket) }

// kmsProbe is encrypted to see whether the key works.
var kmsProbe = []byte("health")

// A kmsPlugin is the KMS plugin (v2) of one API server, as aws-encryption-provider
// is on EKS: gRPC on a unix socket on one side, AWS KMS on the other.
// https://kubernetes.io/docs/tasks/administer-cluster/kms-provider/
type kmsPlugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	path    string
	planeID string
	keyARN  string
	kms     KMS
	server  *grpc.Server
	done    chan struct{}
	// heard is told how every call of KMS ended.
	heard func(error)
}

func serveKMSPlugin(ctx context.Context, path, planeID, keyARN string, kms KMS, heard func(error)) (*kmsPlugin, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	k := &kmsPlugin{path: path, planeID: planeID, keyARN: keyARN, kms: kms, server: grpc.NewServer(grpc.WaitForHandlers(true)), done: make(chan struct{}), heard: heard}
	kmsapi.RegisterKeyManagementServiceServer(k.server, k)
	go func() {
		defer close(k.done)
		_ = k.server.Serve(l) // ends by close
	}()
	return k, nil
}

func (k *kmsPlugin) close() {
	k.server.Stop()
	<-k.done
	_ = os.Remove(k.path)
}

// Status implements the plugin. The API server asks once a minute, and goes on
// encrypting without KMS only for three minutes.
func (k *kmsPlugin) Status(ctx context.Context, _ *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	out := &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: k.keyARN}
	if _, err := k.encrypt(ctx, kmsProbe); err != nil {
		out.Healthz = err.Error()
	}
	return out, nil
}

// Encrypt implements the plugin.
func (k *kmsPlugin) Encrypt(ctx context.Context, in *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	out, err := k.encrypt(ctx, in.Plaintext)
	if err != nil {
		return nil, err
	}
	return &kmsapi.EncryptResponse{Ciphertext: out, KeyId: k.keyARN}, nil
}

// Decrypt implements the plugin.
func (k *kmsPlugin) Decrypt(ctx context.Context, in *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	out, err := k.kms.Decrypt(ctx, k.planeID, k.keyARN, in.Ciphertext)
	k.heard(err)
	if err != nil {
		return nil, fmt.Errorf("failed to decrypt data: %w", err)
	}
	return &kmsapi.DecryptResponse{Plaintext: out}, nil
}

func (k *kmsPlugin) encrypt(ctx context.Context, plaintext []byte) ([]byte, error) {
	out, err := k.kms.Encrypt(ctx, k.planeID, k.keyARN, plaintext)
	k.heard(err)
	if err != nil {
		return nil, fmt.Errorf("failed to encrypt data: %w", err)
	}
	return out, nil
}

package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/drydock-dev/drydock/internal/node"
)

// setUpNetwork is the CNI's start: without its image, addresses for pods, and the
// permission to get them, there is no Ready.
func (k *kubelet) setUpNetwork(ctx context.Context) {
	addrs, step, err := k.startCNI(ctx)
	if err != nil {
		if ctx.Err() == nil {
			k.m.step(ctx, step, err, "")
			k.m.phase(node.PhaseRegistered, err.Error())
			k.os.log("kubelet", "kubelet.go:3117] \"Container runtime network not ready\" networkReady=%q", "NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized")
			k.os.log("aws-node", "%s", err)
		}
		k.networkDelay = min(max(2*k.networkDelay, networkRetryFirst), networkRetry)
		k.networkDue = k.now().Add(k.networkDelay)
		return
	}
	k.pool.add(addrs)
	k.network, k.networkDelay = true, 0
	k.m.step(ctx, node.StepNetwork, nil, fmt.Sprintf("%d addresses for pods", len(addrs)))
}

// startCNI starts aws-node, and says at which step it failed. On a node that was
// Ready before the daemon was restarted it has long been running.
func (k *kubelet) startCNI(ctx context.Context) (addrs []netip.Addr, step string, err error) {
	running := k.ready
	if !k.pulled && !k.existed && !running {
		if err := k.pullCNI(ctx); err != nil {
			return nil, node.StepImage, err
		}
		k.pulled = true
		k.m.step(ctx, node.StepImage, nil, k.cniImage())
	}
	if !running {
		for _, action := range []string{node.ActionDescribeInterfaces, node.ActionDescribeInstances} {
			if err := k.m.call(ctx, action); err != nil {
				return nil, node.StepNetwork, fmt.Errorf("aws-node: unable to initialize AWS SDK session: %w", err)
			}
		}
	}
	addrs, err = k.m.rt.cfg.PodAddresses(ctx, k.m.in.ID)
	if err == nil && len(addrs) == 0 {
		addrs, err = k.assignAddresses(ctx)
		if errors.Is(err, node.ErrAddressLimit) {
			err = nil // a type so small that it has none: pods of the host network run
		}
	}
	if err != nil {
		return nil, node.StepNetwork, fmt.Errorf("no addresses for pods: %w", err)
	}
	return addrs, "", nil
}

func (k *kubelet) registry() string {
	return node.Registry + ".dkr.ecr." + k.m.in.Region + ".amazonaws.com"
}

func (k *kubelet) cniImage() string {
	return k.registry() + "/" + node.CNIRepository + ":" + node.CNITag
}

// pullCNI decides what containerd does to pull the image of aws-node: a token of the
// registry, the manifest, and the layers from S3. The errors are containerd's.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html
func (k *kubelet) pullCNI(ctx context.Context) error {
	image, host := k.cniImage(), k.registry()
	refuse := func(err error, format string, args ...any) error {
		text := fmt.Errorf("Failed to pull image %q: failed to pull and unpack image %q: %s", image, image, fmt.Sprintf(format, args...)) //nolint:staticcheck // the kubelet's text
		if why := node.DecisionOf(err); why != nil {
			return &node.Refusal{Err: text, Decision: *why}
		}
		return fmt.Errorf("%w (%w)", text, err)
	}
	manifest := "https://" + host + "/v2/" + node.CNIRepository + "/manifests/" + node.CNITag
	if err := k.m.call(ctx, node.ActionGetToken); err != nil {
		// The credential provider has none, and the registry is asked without.
		return refuse(err, "failed to resolve reference %q: pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials", image)
	}
	if err := k.m.connect(ctx, host); err != nil {
		return refuse(err, "failed to resolve reference %q: failed to do request: Head %q: %v", image, manifest, err)
	}
	if err := k.m.call(ctx, node.ActionGetImage); err != nil {
		return refuse(err, "failed to resolve reference %q: unexpected status from HEAD request to %s: 403 Forbidden", image, manifest)
	}
	if err := k.m.call(ctx, node.ActionGetLayer); err != nil {
		return refuse(err, "failed to copy: httpReadSeeker: failed open: unexpected status code https://%s/v2/%s/blobs: 403 Forbidden", host, node.CNIRepository)
	}
	bucket := "prod-" + k.m.in.Region + "-starport-layer-bucket.s3." + k.m.in.Region + ".amazonaws.com"
	if err := k.m.connect(ctx, bucket); err != nil {
		return refuse(err, "failed to copy: httpReadSeeker: failed open: failed to do request: Get %q: %v", "https://"+bucket, err)
	}
	return nil
}

// assignAddresses has the CNI get a further network interface's worth of addresses.
func (k *kubelet) assignAddresses(ctx context.Context) ([]netip.Addr, error) {
	for _, action := range []string{node.ActionCreateInterface, node.ActionAttachInterface, node.ActionAssignAddresses} {
		if err := k.m.call(ctx, action); err != nil {
			return nil, err
		}
	}
	return k.m.rt.cfg.AssignPodAddresses(ctx, k.m.in.ID)
}

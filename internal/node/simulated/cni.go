package simulated

import (
	"context"
	"net/netip"
	"time"

	"github.com/drydock-dev/drydock/internal/node"
)

// address gives a pod an address. Otherwise it returns when to ask again at the latest and, in the kubelet's words,
// why there is none.
func (k *kubelet) address(ctx context.Context, p *pod) (netip.Addr, time.Time, *sandboxError) {
	now := k.now()
	if !k.network {
		return netip.Addr{}, time.Time{}, &sandboxError{reason: "NetworkNotReady", message: "network is not ready: " + networkNotReady}
	}
	if !k.ipam.running {
		return netip.Addr{}, time.Time{}, cniError("Error received from AddNetwork gRPC call: rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial tcp 127.0.0.1:50051: connect: connection refused\"")
	}
	ok, cooled := k.ipam.pool.has(now)
	if !ok && k.ipam.tooLow() { // otherwise the pool is refilled later
		if err := k.ipam.increase(ctx); err != nil {
			k.ipam.log("%v", err)
		}
		ok, cooled = k.ipam.pool.has(now)
		k.noteAddresses(ctx)
	}
	k.ipam.changed()
	if !ok {
		failed := cniError("failed to assign an IP address to container")
		failed.cause = node.CauseNoPodAddress
		return netip.Addr{}, cooled, failed
	}
	ip, _ := k.ipam.pool.take(p.uid, now)
	return ip, time.Time{}, nil
}

// A sandboxError is why a pod has no sandbox: an event of the kubelet's. In its
// message, {sandbox} stands for the sandbox's ID. cause is one of package node's, or empty.
type sandboxError struct{ reason, message, cause string }

func cniError(text string) *sandboxError {
	return &sandboxError{reason: "FailedCreatePodSandBox", message: "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox {sandbox}: plugin type=\"aws-cni\" name=\"aws-cni\" failed (add): add cmd: " + text}
}

// wake makes all pods without a sandbox due.
func (k *kubelet) wake() {
	now := k.now()
	for _, p := range k.pods {
		if !p.hasSandbox && !p.due.IsZero() && p.retry == 0 {
			p.due = now
		}
	}
}

// maintainAddresses lets the daemon check its pool.
func (k *kubelet) maintainAddresses(ctx context.Context) {
	k.ipam.maintain(ctx)
	k.noteAddresses(ctx)
}

// noteAddresses records when there are too few addresses, and when there are enough again.
func (k *kubelet) noteAddresses(ctx context.Context) {
	if k.ipam.problem == nil && !k.addressTrouble {
		return
	}
	if k.addressTrouble && k.ipam.problem == nil {
		k.wake()
	}
	k.addressTrouble = k.ipam.problem != nil
	k.m.step(ctx, node.StepNetwork, k.ipam.problem, k.ipam.has())
}

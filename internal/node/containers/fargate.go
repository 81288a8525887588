package containers

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// Machines of Fargate run one pod, in the network namespace of the machine: the pod has the address of the machine's network
// interface, and shares its ports with the kubelet. Nothing on them is an add-on's: they have kube-proxy as a program, and no
// metadata service.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html

// StartFargate starts a Fargate machine.
func (r *Runtime) StartFargate(ctx context.Context, f node.Fargate) error {
	r.fargates.Store(f.ID, &f)
	return r.Start(ctx, f.Instance)
}

// RemoveFargate switches a Fargate machine off, if it is on, and removes its disk. Before, it lets the log router send what is
// left.
func (r *Runtime) RemoveFargate(ctx context.Context, id string) error {
	if i := r.instance(id); i != nil && i.fargate != nil {
		i.flushLogs(ctx)
	}
	if err := machine.Stop(ctx, r, id, true); err != nil {
		return err
	}
	r.fargates.Delete(id)
	return r.RemoveDisk(id)
}

// runFargate joins the cluster, and serves the pod until ctx ends.
func (i *instance) runFargate(ctx context.Context) {
	f := i.fargate
	i.mu.Lock()
	i.info.Cluster = f.ClusterName
	i.mu.Unlock()
	i.join(ctx, &userdata.Config{
		ClusterName: f.ClusterName, Endpoint: f.Cluster.Endpoint, CA: f.Cluster.CA, ServiceCIDR: f.Cluster.ServiceCIDR,
		Labels: f.Labels, Taints: f.Taints, MaxPods: 1, NodeName: f.NodeName, ProviderID: f.ProviderID,
	})
}

// prepareFargate configures how the pod gets its address, and how the kubelet pulls images.
func (i *instance) prepareFargate(ctx context.Context) error {
	cni, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": "fargate", "plugins": []any{map[string]any{"type": "drydock-cni", "machineAddress": i.in.PrivateIP}},
	})
	if err != nil {
		return err
	}
	if err := i.machine.Write(ctx, "/etc/cni/net.d/10-fargate.conflist", cni, 0o644); err != nil {
		return err
	}
	return i.writeCredentials(ctx)
}

// credentialsFile has the credentials of the pod execution role for the program that lets the kubelet pull from ECR. Pods do not
// see the machine's files.
const credentialsFile = "/var/lib/drydock/aws-credentials"

const (
	// renewCredentials is how often the file is written. Credentials are renewed when they are valid for less than ten minutes.
	renewCredentials = 4 * time.Minute
	// fargateRetry is how long the first failure waits for the next attempt. Each further one waits twice as long, up to
	// renewCredentials.
	fargateRetry = 5 * time.Second
)

// writeCredentials writes the credentials of the pod execution role.
func (i *instance) writeCredentials(ctx context.Context) error {
	c, err := i.rt.cfg.Credentials(ctx, i.in.ID)
	if err != nil {
		return &stepError{node.StepCredentials, fmt.Errorf("getting the credentials of the pod execution role: %w", err)}
	}
	return i.machine.Write(ctx, credentialsFile, fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\naws_session_token = %s\n",
		c.AccessKeyID, c.SecretAccessKey, c.SessionToken), 0o600)
}

// serveFargate does for the pod what other programs do on other nodes, until ctx ends.
func (i *instance) serveFargate(ctx context.Context, c *client, nodeName string) {
	var running sync.WaitGroup
	defer running.Wait()
	if i.fargate.Logging != nil {
		running.Go(func() { i.sendLogs(ctx, c) })
	}
	running.Go(func() {
		i.untilDone(ctx, "starting kube-proxy for a pod of Fargate", func() error {
			proxy, err := proxyConfig(nodeName, "127.0.0.1")
			if err != nil {
				return err
			}
			return i.machine.StartProgram(ctx, launch.KubeProxy, proxy)
		})
	})
	for timing.Sleep(ctx, i.rt.clock, renewCredentials) {
		i.untilDone(ctx, "renewing the credentials of a pod execution role", func() error { return i.writeCredentials(ctx) })
	}
}

// untilDone tries something until it succeeds or ctx ends. It logs a failure that repeats once.
func (i *instance) untilDone(ctx context.Context, what string, do func() error) {
	last := ""
	for wait := fargateRetry; ; wait = min(2*wait, renewCredentials) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		if text := failed(err).Error(); text != last {
			i.rt.log.Warn(what, "machine", i.in.ID, "err", err)
			last = text
		}
		if !timing.Sleep(ctx, i.rt.clock, wait) {
			return
		}
	}
}

package containers

import (
	"context"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/drydock-dev/drydock/internal/node/ami"
)

// cri calls containerd on the machine.
func (i *instance) cri(do func(ctx context.Context, c runtimeapi.RuntimeServiceClient) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///containerd", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return i.machine.Unix(ctx, "/run/containerd/containerd.sock")
	}))
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(ctx, runtimeapi.NewRuntimeServiceClient(conn))
}

// sandboxes returns the pods that containerd runs.
func (i *instance) sandboxes() (out []ami.Sandbox) {
	_ = i.cri(func(ctx context.Context, c runtimeapi.RuntimeServiceClient) error {
		pods, err := c.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
		if err != nil {
			return err
		}
		all, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			s := ami.Sandbox{ID: p.Id, Name: p.Metadata.GetName(), Namespace: p.Metadata.GetNamespace(), Ready: p.State == runtimeapi.PodSandboxState_SANDBOX_READY, Created: time.Unix(0, p.CreatedAt)}
			for _, k := range all.Containers {
				if k.PodSandboxId == p.Id {
					s.Containers = append(s.Containers, ami.Container{
						ID: k.Id, Name: k.Metadata.GetName(), Image: k.Image.GetUserSpecifiedImage(), Running: k.State == runtimeapi.ContainerState_CONTAINER_RUNNING, Created: time.Unix(0, k.CreatedAt), Restarts: int(k.Metadata.GetAttempt()),
					})
				}
			}
			out = append(out, s)
		}
		return nil
	}) // containers need containerd
	return out
}

// containerLog returns what a container has printed.
func (i *instance) containerLog(id string) (text string, err error) {
	err = i.cri(func(ctx context.Context, c runtimeapi.RuntimeServiceClient) error {
		st, err := c.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return err
		}
		files, err := i.machine.Files()
		if err != nil {
			return err
		}
		b, err := files.ReadFile(st.Status.GetLogPath())
		for line := range strings.Lines(string(b)) {
			// TIME STREAM P|F TEXT: https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
			if f := strings.SplitN(line, " ", 4); len(f) == 4 {
				if f[2] == "P" {
					f[3] = strings.TrimSuffix(f[3], "\n")
				}
				text += f[3]
			}
		}
		return err
	})
	return text, err
}

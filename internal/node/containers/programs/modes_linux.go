package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/drydock-dev/drydock/internal/catalog/addonimages"
	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/idle"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// Modes returns the child modes.
func Modes() childproc.Modes {
	return childproc.Modes{
		launch.Containerd: func(ctx context.Context, _ childproc.Env) int {
			go idle.Tend(ctx, func(bool) {})
			return code(runContainerd(ctx))
		},
		launch.KubeletRun: func(ctx context.Context, env childproc.Env) int {
			var cfg launch.Kubelet
			if err := json.Unmarshal(env.Config, &cfg); err != nil {
				return code(err)
			}
			go idle.Tend(ctx, func(bool) {})
			return code(runKubelet(ctx, cfg))
		},
		launch.VolumeDriver: func(ctx context.Context, _ childproc.Env) int { return code(runVolumeDriver(ctx)) },
	}
}

// runVolumeDriver runs the driver of volumes of EKS Auto Mode, which registers itself with the kubelet.
func runVolumeDriver(ctx context.Context) error {
	const name, kubelet = "ebs.csi.eks.amazonaws.com", "/var/lib/kubelet"
	dir := kubelet + "/plugins/" + name
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, addonimages.Programs+"/aws-ebs-csi-driver", "node", "--driver-name="+name, "--topology=eks.amazonaws.com/compute-type=auto",
		"--endpoint=unix:"+dir+"/csi.sock", "--plugin-registration-path="+kubelet+"/plugins_registry")
	c.Stdout, c.Stderr, c.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c.Run()
}

// code reports an error and returns the exit code.
func code(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

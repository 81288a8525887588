package child

import (
	"context"
	"errors"

	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

func runControllerManager(ctx context.Context, cfg launch.Config) error {
	opts, err := kcmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := kcm.KnownControllers(), kcm.ControllersDisabledByDefault(), kcm.ControllerAliases()
	if err := parse(opts.Flags(known, disabled, aliases), controllerManagerArgs(cfg)); err != nil {
		return err
	}
	config, err := opts.Config(ctx, known, disabled, aliases)
	if err != nil {
		return err
	}
	return kcm.Run(ctx, config.Complete())
}

func controllerManagerArgs(cfg launch.Config) []string {
	files := launch.Files(cfg.Dir)
	return []string{
		"--kubeconfig=" + files.ControllerManagerKubeconfig(),
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--service-account-private-key-file=" + files.ServiceAccountKey(),
		"--root-ca-file=" + files.CA(),
		"--use-service-account-credentials=true",
		// EKS signs kubelets' serving certificates and no client certificates.
		// https://docs.aws.amazon.com/eks/latest/userguide/cert-signing.html
		"--cluster-signing-kubelet-serving-cert-file=" + files.CA(),
		"--cluster-signing-kubelet-serving-key-file=" + files.CAKey(),
		"--cloud-provider=external",
		"--allocate-node-cidrs=false",
		"--configure-cloud-routes=false",
		"--service-cluster-ip-range=" + cfg.ServiceCIDR,
		// It is created if missing, by default under /usr.
		"--flex-volume-plugin-dir=" + files.FlexVolumes(),
		"--profiling=false",
		"--concurrent-replicaset-syncs=10",
		"--concurrent-deployment-syncs=10",
	}
}

func runScheduler(ctx context.Context, cfg launch.Config) error {
	opts := scheduleroptions.NewOptions()
	if err := parse(*opts.Flags, schedulerArgs(cfg)); err != nil {
		return err
	}
	config, sched, err := scheduler.Setup(ctx, opts)
	if err != nil {
		return err
	}
	err = scheduler.Run(ctx, config, sched)
	if ctx.Err() != nil {
		return nil // it always returns an error
	}
	if err == nil {
		err = errors.New("stopped unexpectedly")
	}
	return err
}

func schedulerArgs(cfg launch.Config) []string {
	return []string{
		"--kubeconfig=" + launch.Files(cfg.Dir).SchedulerKubeconfig(),
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}

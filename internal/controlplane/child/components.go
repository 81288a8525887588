package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

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
	args := []string{
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
	if period := cfg.Settings.HPASyncPeriod; period != "" {
		args = append(args, "--horizontal-pod-autoscaler-sync-period="+period)
	}
	return args
}

func runScheduler(ctx context.Context, cfg launch.Config) error {
	opts := scheduleroptions.NewOptions()
	args := schedulerArgs(cfg)
	if cfg.Settings.Scoring != "" {
		file := launch.Files(cfg.Dir).SchedulerConfig()
		data, err := schedulerConfig(cfg)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			return err
		}
		args = append(args, "--config="+file)
	}
	if err := parse(*opts.Flags, args); err != nil {
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

// schedulerConfig returns a KubeSchedulerConfiguration with the settings. It has the client settings of schedulerArgs, too,
// because the flags for these have no effect beside a file.
func schedulerConfig(cfg launch.Config) ([]byte, error) {
	const apiVersion = "kubescheduler.config.k8s.io/v1"
	type object = map[string]any
	var resources []object
	for one := range strings.SplitSeq(cfg.Settings.Weights, ",") {
		name, weight, _ := strings.Cut(one, "=")
		n, err := strconv.ParseInt(weight, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the weight of resource %q: %w", name, err)
		}
		resources = append(resources, object{"name": name, "weight": n})
	}
	return json.Marshal(object{
		"apiVersion":       apiVersion,
		"kind":             "KubeSchedulerConfiguration",
		"clientConnection": object{"kubeconfig": launch.Files(cfg.Dir).SchedulerKubeconfig(), "qps": 1000, "burst": 2000},
		"leaderElection":   object{"leaderElect": false},
		"profiles": []object{{
			"schedulerName": "default-scheduler",
			"pluginConfig": []object{{
				"name": "NodeResourcesFit",
				"args": object{
					"apiVersion":      apiVersion,
					"kind":            "NodeResourcesFitArgs",
					"scoringStrategy": object{"type": cfg.Settings.Scoring, "resources": resources},
				},
			}},
		}},
	})
}

package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	_ "unsafe" // for linkname

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
	"k8s.io/kubernetes/pkg/util/oom"

	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// gitVersion is the version that this process reports. SetDynamicVersion allows only another build of the same one, and a
// node reports the version of its image: see docs/containers.md.
//
//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

// runKubelet does what the kubelet's own command does, with the machine's size instead of the host's.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kubelet/app/server.go
func runKubelet(ctx context.Context, cfg launch.Kubelet) error {
	s, err := options.NewKubeletServer()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	s.KubeletFlags.AddFlags(flags)
	if err := flags.Parse(cfg.Args); err != nil {
		return err
	}
	loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, s.KubeletConfigFile)
	if err != nil {
		return err
	}
	kc, err := loader.Load(ctx)
	if err != nil {
		return fmt.Errorf("failed to load kubelet config file, path: %s, error: %w", s.KubeletConfigFile, err)
	}
	s.KubeletConfiguration = *kc
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(s.FeatureGates); err != nil {
		return err
	}
	logs.InitLogs()
	if err := logsapi.ValidateAndApplyAsField(&s.Logging, utilfeature.DefaultFeatureGate, nil); err != nil {
		return err
	}
	gitVersion, _, _ = strings.Cut(cfg.Version, "-")
	if err := version.SetDynamicVersion(cfg.Version); err != nil {
		return err
	}
	deps, err := app.UnsecuredDependencies(ctx, s, utilfeature.DefaultFeatureGate)
	if err != nil {
		return err
	}
	// A user namespace may not lower the scores.
	deps.OOMAdjuster = oom.NewFakeOOMAdjuster()
	// NewKubeletServer has set the address of containerd.
	real, err := cadvisor.New(klog.FromContext(ctx), cadvisor.NewImageFsInfoProvider(s.ContainerRuntimeEndpoint), s.RootDirectory, []string{"/"},
		cadvisor.UsingLegacyCadvisorStats(s.ContainerRuntimeEndpoint), s.LocalStorageCapacityIsolation)
	if err != nil {
		return err
	}
	deps.CAdvisorInterface = newSized(real, cfg)
	if err := app.Run(ctx, s, deps, utilfeature.DefaultFeatureGate); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

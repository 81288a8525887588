package child

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/drydock-dev/drydock/internal/controlplane/child/karpenter"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// setProcessWide does once what each of the three commands does before running its component: it sets up logging,
// feature gates, the emulated version and client warnings.
func setProcessWide(cfg launch.Config) error {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	if err := logsapi.ValidateAndApply(logsapi.NewLoggingConfiguration(), utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	registry := compatibility.DefaultComponentGlobalsRegistry
	flags := pflag.NewFlagSet("kubernetes", pflag.ContinueOnError)
	registry.AddFlags(flags)
	if err := flags.Parse([]string{"--emulated-version=kube=" + cfg.Version}); err != nil {
		return err
	}
	if err := registry.Set(); err != nil {
		return fmt.Errorf("emulating Kubernetes %s: %w", cfg.Version, err)
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	karpenter.Register()
	return nil
}

// parse sets a component's flags as its command line does.
func parse(sets flag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, fs := range sets.FlagSets {
		all.AddFlagSet(fs)
	}
	return all.Parse(args)
}

// writeKubeconfigs writes the client configurations of the controller manager and the scheduler, which connect to
// this process's port.
func writeKubeconfigs(cfg launch.Config, port int) error {
	files := launch.Files(cfg.Dir)
	for path, cert := range map[string]string{
		files.ControllerManagerKubeconfig(): files.ControllerManager(),
		files.SchedulerKubeconfig():         files.Scheduler(),
	} {
		c := clientcmdapi.NewConfig()
		c.Clusters["self"] = &clientcmdapi.Cluster{Server: fmt.Sprintf("https://127.0.0.1:%d", port), CertificateAuthority: files.CA()}
		c.AuthInfos["self"] = &clientcmdapi.AuthInfo{ClientCertificate: cert, ClientKey: cert}
		c.Contexts["self"] = &clientcmdapi.Context{Cluster: "self", AuthInfo: "self"}
		c.CurrentContext = "self"
		b, err := clientcmd.Write(*c)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

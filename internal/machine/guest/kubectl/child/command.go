package child

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/annotate"
	"k8s.io/kubectl/pkg/cmd/apiresources"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/auth"
	"k8s.io/kubectl/pkg/cmd/autoscale"
	"k8s.io/kubectl/pkg/cmd/certificates"
	"k8s.io/kubectl/pkg/cmd/clusterinfo"
	"k8s.io/kubectl/pkg/cmd/create"
	"k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/describe"
	"k8s.io/kubectl/pkg/cmd/drain"
	"k8s.io/kubectl/pkg/cmd/events"
	"k8s.io/kubectl/pkg/cmd/explain"
	"k8s.io/kubectl/pkg/cmd/expose"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/logs"
	"k8s.io/kubectl/pkg/cmd/options"
	"k8s.io/kubectl/pkg/cmd/patch"
	"k8s.io/kubectl/pkg/cmd/replace"
	"k8s.io/kubectl/pkg/cmd/rollout"
	"k8s.io/kubectl/pkg/cmd/run"
	"k8s.io/kubectl/pkg/cmd/scale"
	"k8s.io/kubectl/pkg/cmd/set"
	"k8s.io/kubectl/pkg/cmd/taint"
	"k8s.io/kubectl/pkg/cmd/top"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/version"
	"k8s.io/kubectl/pkg/cmd/wait"
	"k8s.io/kubectl/pkg/util/templates"

	_ "github.com/drydock-dev/drydock/internal/machine/guest/kubectl/english" // before the packages that translate
)

// missing are kubectl's commands that need an editor, programs, ports or folders.
var missing = []string{"alpha", "cp", "completion", "debug", "diff", "edit", "kuberc", "kustomize", "plugin", "proxy"}

// command returns kubectl's command line.
func (p *process) command(streams genericiooptions.IOStreams) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	getter := newGetter(p, flags)
	matched := cmdutil.NewMatchVersionFlags(getter)
	f := cmdutil.NewFactory(matched)
	warnings := rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	root := &cobra.Command{
		Use: "kubectl", Short: "kubectl controls the Kubernetes cluster manager",
		Long: "kubectl controls the Kubernetes cluster manager.\n\n Find more information at: https://kubernetes.io/docs/reference/kubectl/",
		Run:  func(cmd *cobra.Command, _ []string) { _ = cmd.Help() }, // as kubectl's
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			rest.SetDefaultWarningHandler(warnings)
			return p.readFiles(cmd)
		},
		SilenceErrors: true, SilenceUsage: true,
	}
	flags.AddFlags(root.PersistentFlags())
	matched.AddFlags(root.PersistentFlags())
	info := clusterinfo.NewCmdClusterInfo(matched, streams)
	info.RemoveCommand(info.Commands()...)
	info.Args = cobra.NoArgs
	refuse(info, "dump") // writes a folder
	groups := templates.CommandGroups{
		{Message: "Basic Commands (Beginner):", Commands: []*cobra.Command{
			create.NewCmdCreate(f, streams), expose.NewCmdExposeService(f, streams), run.NewCmdRun(f, streams), set.NewCmdSet(f, streams),
		}},
		{Message: "Basic Commands (Intermediate):", Commands: []*cobra.Command{
			explain.NewCmdExplain("kubectl", f, streams), get.NewCmdGet("kubectl", f, streams), delete.NewCmdDelete(f, streams),
		}},
		{Message: "Deploy Commands:", Commands: []*cobra.Command{
			rollout.NewCmdRollout("kubectl", f, streams), scale.NewCmdScale(f, streams), autoscale.NewCmdAutoscale(f, streams),
		}},
		{Message: "Cluster Management Commands:", Commands: []*cobra.Command{
			certificates.NewCmdCertificate(f, streams), info, top.NewCmdTop(f, streams),
			drain.NewCmdCordon(f, streams), drain.NewCmdUncordon(f, streams), drain.NewCmdDrain(f, streams), taint.NewCmdTaint(f, streams),
		}},
		{Message: "Troubleshooting and Debugging Commands:", Commands: []*cobra.Command{
			describe.NewCmdDescribe("kubectl", f, streams), logs.NewCmdLogs(f, streams), p.attach(f, streams), p.exec(f, streams), p.portForward(f, streams),
			auth.NewCmdAuth(f, streams), events.NewCmdEvents(f, streams),
		}},
		{Message: "Advanced Commands:", Commands: []*cobra.Command{
			apply.NewCmdApply("kubectl", f, streams), patch.NewCmdPatch(f, streams), replace.NewCmdReplace(f, streams), wait.NewCmdWait(f, streams),
		}},
		{Message: "Settings Commands:", Commands: []*cobra.Command{label.NewCmdLabel(f, streams), annotate.NewCmdAnnotate("kubectl", f, streams)}},
	}
	groups.Add(root)
	templates.ActsAsRootCommand(root, []string{"options"}, groups...)
	root.AddCommand(p.config(getter, streams), version.NewCmdVersion(f, streams), apiresources.NewCmdAPIVersions(matched, streams),
		apiresources.NewCmdAPIResources(matched, streams), options.NewCmdOptions(streams.Out))
	refuse(root, missing...)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return errors.New(err.Error() + "\nSee '" + c.CommandPath() + " --help' for usage.")
	})
	return root
}

// refuse adds subcommands that fail.
func refuse(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		cmd.AddCommand(&cobra.Command{
			Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(c *cobra.Command, _ []string) error {
				return fmt.Errorf("%s does not work on a simulated machine; run it on your own machine", c.CommandPath())
			},
		})
	}
}

package child

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	cmdconfig "k8s.io/kubectl/pkg/cmd/config"
)

// config is kubectl config. kubectl's commands that only read are its own; those that write would write the host's files.
func (p *process) config(g *getter, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{Use: "config SUBCOMMAND", DisableFlagsInUseLine: true, Short: "Modify kubeconfig files", Args: cobra.NoArgs, Run: func(c *cobra.Command, _ []string) { _ = c.Help() }}
	cmd.AddCommand(cmdconfig.NewCmdConfigView(streams, g), cmdconfig.NewCmdConfigCurrentContext(streams.Out, g), cmdconfig.NewCmdConfigGetContexts(streams, g),
		cmdconfig.NewCmdConfigGetClusters(streams.Out, g), cmdconfig.NewCmdConfigGetUsers(streams, g))
	cmd.AddCommand(&cobra.Command{
		Use: "use-context CONTEXT_NAME", Aliases: []string{"use"}, Short: "Set the current-context in a kubeconfig file", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := g.load()
			if err != nil {
				return err
			}
			if all.Contexts[args[0]] == nil {
				return fmt.Errorf("no context exists with the name: %q", args[0])
			}
			if err := g.change(g.GetDefaultFilename(), func(c *api.Config) { c.CurrentContext = args[0] }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "Switched to context %q.\n", args[0])
			return err
		},
	})
	var current bool
	set := &cobra.Command{Use: "set-context [NAME | --current] [--cluster=cluster_nickname] [--user=user_nickname] [--namespace=namespace]", DisableFlagsInUseLine: true, Short: "Set a context entry in kubeconfig", Args: cobra.MaximumNArgs(1)}
	set.Flags().BoolVar(&current, "current", false, "Modify the current context")
	set.RunE = func(_ *cobra.Command, args []string) error {
		all, err := g.load()
		if err != nil {
			return err
		}
		if current == (len(args) == 1) {
			return fmt.Errorf("you must specify a non-empty context name or --current") // kubectl's
		}
		name := all.CurrentContext
		if current && name == "" {
			return fmt.Errorf("no current context is set")
		}
		if !current {
			name = args[0]
		}
		file, verb := g.GetDefaultFilename(), "created"
		if old := all.Contexts[name]; old != nil {
			file, verb = old.LocationOfOrigin, "modified"
		}
		err = g.change(file, func(c *api.Config) {
			if c.Contexts[name] == nil {
				c.Contexts[name] = api.NewContext()
			}
			for _, f := range []struct {
				given string
				to    *string
			}{{*g.flags.ClusterName, &c.Contexts[name].Cluster}, {*g.flags.AuthInfoName, &c.Contexts[name].AuthInfo}, {*g.flags.Namespace, &c.Contexts[name].Namespace}} {
				if f.given != "" {
					*f.to = f.given
				}
			}
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(streams.Out, "Context %q %s.\n", name, verb)
		return err
	}
	cmd.AddCommand(set)
	refuse(cmd, "delete-cluster", "delete-context", "delete-user", "rename-context", "set", "set-cluster", "set-credentials", "unset")
	return cmd
}

// change changes one of the machine's kubeconfig files.
func (g *getter) change(name string, f func(*api.Config)) error {
	cfg := api.NewConfig()
	if b, err := g.p.read(name); err == nil {
		if cfg, err = clientcmd.Load(b); err != nil {
			return err
		}
	}
	f(cfg)
	b, err := clientcmd.Write(*cfg)
	if err != nil {
		return err
	}
	return g.p.files.WriteFile(name, b, 0o600)
}

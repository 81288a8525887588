package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func newImage(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Give images to nodes that run containers",
		Long: `Give images to nodes that run containers. Nodes find them before they ask a registry,
except for names in Amazon ECR if a pod's imagePullPolicy is Always, which is the default for the tag latest.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newImageLoad(o), newImageList(o))
	return cmd
}

func newImageLoad(o *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "load FILE.tar",
		Short: "Load images from an archive, as docker save writes it",
		Example: `  docker save -o web.tar web:1
  drydock image load web.tar
  kubectl run web --image=web:1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			daemon, err := o.client()
			if err != nil {
				return err
			}
			names, err := daemon.LoadImage(cmd.Context(), f)
			if err != nil {
				return withHint(err, "docker save -o images.tar IMAGE && drydock image load images.tar")
			}
			for _, name := range names {
				fmt.Fprintln(o.streams.Out, name)
			}
			return nil
		},
	}
}

func newImageList(o *globalOptions) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images that nodes have without a registry",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := o.client()
			if err != nil {
				return err
			}
			names, err := daemon.LoadedImages(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				return o.printJSON(names)
			}
			for _, name := range names {
				fmt.Fprintln(o.streams.Out, name)
			}
			return nil
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

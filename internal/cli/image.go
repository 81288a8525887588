package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

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
	cmd.AddCommand(newImageLoad(o), newImagePull(o), newImageImport(o), newImageList(o))
	return cmd
}

func newImageLoad(o *globalOptions) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "load FILE.tar|DIR",
		Short: "Load images from an archive, as docker save writes it, or from a folder with an OCI image layout",
		Example: `  docker save -o web.tar web:1
  drydock image load web.tar
  drydock image load layout --name web:1
  kubectl run web --image=web:1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return withHint(err, "docker save -o images.tar IMAGE && drydock image load images.tar")
			}
			defer f.Close()
			st, err := f.Stat()
			if err != nil {
				return err
			}
			if st.IsDir() {
				l, err := openLayout(args[0], name)
				if err != nil {
					return err
				}
				defer l.root.Close()
				return o.load(cmd.Context(), l.write)
			}
			if name != "" {
				return &ExitError{2, errors.New("--name is for folders: the images in an archive have names")}
			}
			return withImageHint(o.load(cmd.Context(), func(_ context.Context, w io.Writer) error {
				_, err := io.Copy(w, f)
				return err
			}), "docker save -o images.tar IMAGE && drydock image load images.tar")
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the image in a folder with one image")
	return cmd
}

// withImageHint adds a hint to an error that has none.
func withImageHint(err error, try string) error {
	if err == nil || hinted(err) {
		return err
	}
	return withHint(err, try)
}

// load gives the daemon the archive that write writes, and prints the names of its images. If write fails, the daemon keeps
// nothing, and the error is that of write.
func (o *globalOptions) load(ctx context.Context, write func(context.Context, io.Writer) error) error {
	daemon, err := o.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(ctx, w)
		_ = w.CloseWithError(err) // it returns nil
		written <- err
	}()
	names, err := daemon.LoadImage(ctx, r)
	cancel()
	_ = r.Close() // it returns nil
	if werr := <-written; werr != nil && (err == nil || !errors.Is(werr, io.ErrClosedPipe) && !errors.Is(werr, context.Canceled)) {
		return werr
	}
	if err != nil {
		return o.daemonHint(err)
	}
	for _, name := range names {
		fmt.Fprintln(o.streams.Out, name)
	}
	return nil
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
			slices.Sort(names)
			names = slices.Compact(names) // two archives may have the same image
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

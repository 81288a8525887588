package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/spf13/cobra"
)

// An exporter is a program of this machine that has images.
type exporter struct {
	from, program string
	args          []string // before the names
	full          bool     // it wants full names
}

var exporters = []exporter{
	{from: "docker", program: "docker", args: []string{"image", "save"}},
	{from: "podman", program: "podman", args: []string{"image", "save", "--format", "docker-archive"}},
	{from: "containerd", program: "ctr", args: []string{"images", "export", "-"}, full: true},
}

func newImageImport(o *globalOptions) *cobra.Command {
	var from string
	var sources []string
	for _, e := range exporters {
		sources = append(sources, e.from)
	}
	cmd := &cobra.Command{
		Use:   "import NAME",
		Short: "Load an image that docker, podman or containerd has on this machine",
		Long: `Load an image that docker, podman or containerd has on this machine, by docker image save, podman image save or
ctr images export. Without --from, the first of these programs that has the image gives it.
ctr uses the containerd namespace of CONTAINERD_NAMESPACE, or default.`,
		Example: `  docker build -t web:1 .
  drydock image import web:1
  kubectl run web --image=web:1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := fullName(args[0])
			if err != nil {
				return &ExitError{2, err}
			}
			if from != "" && !slices.Contains(sources, from) {
				return &ExitError{2, fmt.Errorf("invalid --from %q: want %s", from, strings.Join(sources, ", "))}
			}
			return o.load(cmd.Context(), func(ctx context.Context, w io.Writer) error { return export(ctx, w, named, from) })
		},
	}
	cmd.Flags().StringVar(&from, "from", "", strings.Join(sources, ", ")+" (default: the first that has the image)")
	if err := cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(sources, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
	cmd.ValidArgsFunction = completeOne(localImages)
	return cmd
}

// localImages returns the names of the images that docker has, for completion.
func localImages(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}").Output()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return strings.Contains(name, "<none>") })
}

// export writes the archive of the first program that has the image.
func export(ctx context.Context, w io.Writer, named reference.Named, from string) error {
	var said []error
	for _, e := range exporters {
		if from != "" && from != e.from {
			continue
		}
		file, err := exec.LookPath(e.program)
		if err != nil {
			if from != "" {
				said = append(said, fmt.Errorf("%s: there is no program %s", e.from, e.program))
			}
			continue
		}
		began, err := e.export(ctx, file, w, named)
		if err == nil || began || ctx.Err() != nil {
			return withImageHint(err, "drydock image pull "+shellQuote(reference.FamiliarString(named)))
		}
		said = append(said, err)
	}
	if len(said) == 0 {
		said = append(said, errors.New("this machine has neither docker nor podman nor ctr"))
	}
	return withHint(errors.Join(said...), "drydock image pull "+shellQuote(reference.FamiliarString(named)))
}

// export writes the program's archive. It returns began = false if the program has written nothing.
func (e exporter) export(ctx context.Context, file string, w io.Writer, named reference.Named) (began bool, err error) {
	image := reference.FamiliarString(named)
	if e.full {
		image = named.String()
	}
	cmd := exec.CommandContext(ctx, file, append(slices.Clone(e.args), image)...)
	cmd.WaitDelay = 10 * time.Second // for what it has started itself
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	var stderr lastBytes
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("%s: %w", e.from, err)
	}
	r := bufio.NewReader(out)
	if _, err := r.Peek(1); err == nil {
		began = true
		if _, err := io.Copy(w, r); err != nil {
			_ = cmd.Process.Kill()
			return true, errors.Join(err, ignoreExit(cmd.Wait()))
		}
	}
	if err := cmd.Wait(); err != nil {
		return began, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.b))
	}
	if !began {
		return false, fmt.Errorf("%s has written nothing", strings.Join(cmd.Args, " "))
	}
	return true, nil
}

// ignoreExit drops the error of a program that was killed.
func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct{ b []byte }

func (l *lastBytes) Write(b []byte) (int, error) {
	const limit = 4 << 10
	l.b = append(l.b, b...)
	l.b = l.b[max(0, len(l.b)-limit):]
	return len(b), nil
}

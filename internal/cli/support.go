package cli

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newSupport(o *globalOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "support", Short: "Collect diagnostics for a bug report"}
	var file string
	dump := &cobra.Command{
		Use:   "dump",
		Short: "Write logs and state, without secrets, into a zip file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				file = "drydock-support-" + time.Now().UTC().Format("20060102-150405") + ".zip"
			}
			out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
			if err != nil {
				return withHint(err, "drydock support dump --file FILE")
			}
			defer out.Close()
			z := zip.NewWriter(out)
			if err := o.dumpLogs(z); err != nil {
				return err
			}
			if err := o.dumpDaemon(cmd, z); err != nil {
				return err
			}
			if err := z.Close(); err != nil {
				return err
			}
			o.progress("Wrote %s. Review it before you share it.", file)
			return nil
		},
	}
	dump.Flags().StringVar(&file, "file", "", "the zip file (default drydock-support-TIME.zip)")
	cmd.AddCommand(dump)
	return cmd
}

// dumpLogs copies the log files of the data folder and nothing else, because the rest contains keys.
func (o *globalOptions) dumpLogs(z *zip.Writer) error {
	return filepath.WalkDir(o.dataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".log") {
			return nil // an unreadable folder only means a missing log
		}
		in, err := os.Open(path)
		if err != nil {
			return nil
		}
		defer in.Close()
		name, err := filepath.Rel(o.dataDir, path)
		if err != nil {
			return err
		}
		w, err := z.Create("logs/" + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = io.Copy(w, in)
		return err
	})
}

func (o *globalOptions) dumpDaemon(cmd *cobra.Command, z *zip.Writer) error {
	w, err := z.Create("about.txt")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s/%s, %d CPUs, %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format(time.RFC3339))
	daemon, err := o.client()
	if err != nil {
		fmt.Fprintln(w, err)
		return nil
	}
	info := &daemon.Daemon
	fmt.Fprintf(w, "drydock %s, process %d, %s\n", info.Version, info.PID, info.URL)
	for _, page := range []string{"status", "goroutines"} {
		raw, err := daemon.Page(cmd.Context(), page)
		if err != nil {
			fmt.Fprintf(w, "%s: %v\n", page, err)
			continue
		}
		pw, err := z.Create(page + ".txt")
		if err != nil {
			return err
		}
		if _, err := pw.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

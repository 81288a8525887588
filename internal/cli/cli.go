// Package cli is the drydock command: one file per sub-command. Commands talk to a running daemon as any client
// would: over HTTP, to the AWS API or to the daemon's own /_drydock/ pages. The one thing that they cannot do that
// way is to be the daemon; internal/app passes that in. Their requests and responses are defined in internal/api.
//
// Standard output carries only the result; progress and errors go to standard error. Every error says which command
// to try next.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drydock-dev/drydock/internal/api"
)

// Streams are the process's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Interactive reports whether a person answers on In. Nil: if it is a terminal.
	Interactive func() bool
}

// DaemonConfig holds the options of `drydock up`.
type DaemonConfig struct {
	DataDir string
	// Listen is the address and port of the AWS endpoint.
	Listen netip.AddrPort
	// AllowHosts are host names that the endpoint answers to, besides its own and AWS's.
	AllowHosts    []string
	Ephemeral     bool
	Timing        string // fast or aws
	ClientAddress netip.Addr
	RefuseFast    bool // reset what a cluster's endpoint access refuses
	StrictImages  bool // only ECR and AWS's own registries have images
	WarmSpares    int
	NodeRuntime   string // simulated, containers or auto
	Internet      bool   // machines that run containers reach the real internet
	Etcd          EtcdConfig
	// Quotas are increased service quotas, by a name in Quotas.
	Quotas map[string]int
}

// EtcdConfig names an external etcd. Without endpoints, the embedded one is used.
type EtcdConfig struct {
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
	Username, PasswordFile    string
	Prefix                    string
}

// Config connects the command to the program it is part of.
type Config struct {
	Version Version
	// RunDaemon is the daemon: it calls ready once the endpoint answers and returns when ctx has ended and everything
	// that it started has stopped.
	RunDaemon func(ctx context.Context, cfg DaemonConfig, ready func(api.DaemonInfo)) error
	// Supports says which operations of the AWS API are handled.
	Supports func() ([]api.ServiceSupport, error)
}

// Version describes the build.
type Version struct {
	Drydock    string `json:"drydock"`
	Commit     string `json:"commit,omitempty"`
	Kubernetes string `json:"kubernetes"` // versions of the embedded components
	Go         string `json:"go"`
}

func (v Version) String() string {
	return fmt.Sprintf("drydock %s (Kubernetes %s, %s)", v.Drydock, v.Kubernetes, v.Go)
}

// An ExitError ends the process with Code after its message, if any, is printed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the message's error.
func (e *ExitError) Unwrap() error { return e.Err }

// hint adds the next command to try to an error.
type hint struct {
	err error
	try string
}

func (h *hint) Error() string { return h.err.Error() + "\nTry: " + h.try }
func (h *hint) Unwrap() error { return h.err }

func withHint(err error, try string) error { return &hint{err, try} }

// orHint adds a hint to an error that has none: found if the subject of the question does not exist, otherwise try.
func (o *globalOptions) orHint(err error, try, found string) error {
	err = o.daemonHint(err)
	switch said, ok := errors.AsType[*api.Error](err); {
	case err == nil:
		return nil
	case hinted(err), ok && strings.Contains(said.Message, "\nTry: "):
		return err
	case ok && said.Status == http.StatusNotFound:
		return withHint(err, found)
	}
	return withHint(err, try)
}

// daemonHint adds a hint to an error if the daemon did not respond or gave no reason.
func (o *globalOptions) daemonHint(err error) error {
	if hinted(err) {
		return err
	}
	dir := dataDirFlag(o.dataDir)
	if _, ok := errors.AsType[*api.UnreachableError](err); ok {
		return withHint(err, fmt.Sprintf("drydock down%[1]s && drydock up -d%[1]s", dir))
	}
	if said, ok := errors.AsType[*api.Error](err); ok && said.Message == "" {
		return withHint(err, "drydock status"+dir)
	}
	return err
}

func hinted(err error) bool {
	_, ok := errors.AsType[*hint](err)
	return ok
}

// goParsing matches what Go's number parsers put before their reason.
var goParsing = regexp.MustCompile(`strconv\.\w+: parsing "(?:[^"\\]|\\.)*": `)

// strict makes a command and its sub-commands handle wrong arguments like wrong flags: with exit code 2 and a hint.
// For a command that only groups others, cobra would otherwise print the help and report success, whatever word
// follows it.
func strict(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if exit, ok := errors.AsType[*ExitError](err); ok && exit.Code == 2 && exit.Err != nil && !hinted(err) {
				return &ExitError{2, withHint(exit.Err, cmd.CommandPath()+" --help")}
			}
			return err
		}
	}
	check := cmd.Args
	switch {
	case !cmd.Runnable():
		cmd.DisableFlagsInUseLine = true
		cmd.SuggestionsMinimumDistance = 2
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			try := "--help"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				try = near[0]
			}
			return &ExitError{2, withHint(fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()), cmd.CommandPath()+" "+try)}
		}
	case check != nil:
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &ExitError{2, withHint(fmt.Errorf("%w; the usage is %s", err, cmd.UseLine()), cmd.CommandPath()+" --help")}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		strict(c)
	}
}

// noForeignFlags clears the set of flags that cobra adds to every command. Kubernetes' packages register flags of
// their own programs there, such as --version.
var noForeignFlags = sync.OnceFunc(func() { pflag.CommandLine = pflag.NewFlagSet("drydock", pflag.ContinueOnError) })

// Run runs the command line (without the program's name) and returns the exit code: 0 success, 1 failure, 2 wrong
// usage, 3 if the answer is unknown because the source of a twin did not allow it to be read.
func Run(ctx context.Context, args []string, streams Streams, cfg Config) int {
	o := &globalOptions{streams: streams, version: cfg.Version.Drydock}
	root := newRoot(o, cfg)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var exit *ExitError
	if errors.As(err, &exit) {
		if exit.Err != nil {
			fmt.Fprintln(streams.Err, "drydock:", o.daemonHint(exit.Err))
		}
		if said, ok := errors.AsType[*api.Error](exit.Err); ok && said.Status == api.StatusUnknown {
			return 3
		}
		return exit.Code
	}
	fmt.Fprintln(streams.Err, "drydock:", o.daemonHint(err))
	return 1
}

func newRoot(o *globalOptions, cfg Config) *cobra.Command {
	noForeignFlags()
	root := &cobra.Command{
		Use:     "drydock",
		Version: cfg.Version.String(),
		Short:   "Amazon EKS on your own machine",
		Long: `Drydock is Amazon EKS on your own machine: it answers the AWS API, runs a real
Kubernetes control plane per cluster, and lets nodes, pods and people in only
when AWS would.

  drydock up -d && eval "$(drydock env)"
  aws sts get-caller-identity`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&o.dataDir, "data-dir", defaultDataDir(), "folder for all of Drydock's data ($DRYDOCK_DATA_DIR)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		plain := goParsing.ReplaceAllString(err.Error(), "")
		return &ExitError{2, withHint(errors.New(plain), cmd.CommandPath()+" --help")}
	})
	root.AddCommand(
		newUp(o, cfg),
		newDown(o),
		newStatus(o),
		newEnv(o),
		newRun(o),
		newURL(o),
		newSSH(o),
		newSSHConfig(o),
		newSSHProxy(o),
		newPodView(),
		newTrust(o),
		newTrustView(),
		newReset(o),
		newAMI(o),
		newFault(o),
		newRehearse(o),
		newImport(o),
		newDoctor(o),
		newImage(o),
		newKubeconfig(o),
		newToken(o),
		newKubectl(o.streams),
		newDemo(o),
		newWhy(o),
		newSupport(o),
		newSupports(o, cfg),
		newVersion(cfg, o),
	)
	root.SetVersionTemplate("{{.Version}}\n")
	strict(root)
	return root
}

// globalOptions are the flags every command has.
type globalOptions struct {
	dataDir string
	streams Streams
	version string // of this program
}

func (o *globalOptions) progress(format string, args ...any) {
	fmt.Fprintf(o.streams.Err, format+"\n", args...)
}

// agrees asks a question that only y or yes agrees to.
func (o *globalOptions) agrees(question string) bool {
	fmt.Fprint(o.streams.Err, question+" [y/N] ")
	answer, _ := bufio.NewReader(o.streams.In).ReadString('\n') // none is no
	a := strings.ToLower(strings.TrimSpace(answer))
	return a == "y" || a == "yes"
}

// interactive reports whether a person can answer.
func (o *globalOptions) interactive() bool {
	if o.streams.Interactive != nil {
		return o.streams.Interactive()
	}
	return isTerminal(o.streams.In)
}

// defaultDataDir follows the XDG base directory specification.
func defaultDataDir() string {
	if d := os.Getenv("DRYDOCK_DATA_DIR"); d != "" {
		return d
	}
	if d := os.Getenv("XDG_DATA_HOME"); d != "" {
		return d + "/drydock"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "drydock-data"
	}
	return home + "/.local/share/drydock"
}

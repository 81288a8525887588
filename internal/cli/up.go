package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
)

// DefaultPort is the port of the AWS endpoint unless --port says otherwise.
const DefaultPort = 4566

// DefaultClientAddress is the laptop's public address as AWS would see it. RFC 5737 reserves its
// range for documentation, so no one owns it.
var DefaultClientAddress = netip.MustParseAddr("203.0.113.10")

// Quotas are the names that --quota accepts.
var Quotas = []string{"clusters", "nodegroups-per-cluster", "nodes-per-nodegroup", "vcpus"}

// hostName matches what --allow-host accepts. It cannot be *, which would allow every page.
var hostName = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)

type upOptions struct {
	*globalOptions
	detach, wait  bool
	listen        string
	allowHosts    []string
	port          uint16
	ephemeral     bool
	timing        string
	clientAddress string
	refuseFast    bool
	images        string
	warmSpares    int
	nodeRuntime   string
	internet      string
	etcd          EtcdConfig
	quotas        map[string]int
}

func newUp(o *globalOptions, cfg Config) *cobra.Command {
	up := &upOptions{globalOptions: o}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start Drydock",
		Long: `Start Drydock: the AWS endpoint, and a control plane for each existing cluster.
By default it listens on loopback only, with the credentials test/test. If --listen
names another address, it creates credentials, which "drydock env" prints.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dc, err := up.config()
			if err != nil {
				return &ExitError{2, err}
			}
			if up.wait && !up.detach {
				return &ExitError{2, withHint(errors.New("--wait needs --detach"), "drydock up -d --wait")}
			}
			if up.detach {
				return up.runDetached(cmd.Context(), dc)
			}
			return up.runForeground(cmd.Context(), dc, cfg)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&up.detach, "detach", "d", false, "run in the background; return once the endpoint answers")
	f.BoolVar(&up.wait, "wait", false, "with --detach: return once the clusters answer, too")
	f.StringVar(&up.listen, "listen", "127.0.0.1", "address to listen on")
	f.StringSliceVar(&up.allowHosts, "allow-host", nil, "also answer requests for this host name, or for all names under *.NAME; requests for names other than this machine's and AWS's are refused (repeatable)")
	f.Uint16Var(&up.port, "port", DefaultPort, "port of the AWS endpoint, http and https (0 picks a free one)")
	f.BoolVar(&up.ephemeral, "ephemeral", false, "keep no data after the daemon stops")
	f.StringVar(&up.timing, "timing", "fast", "how long state changes take: fast, or aws for AWS-like durations")
	f.StringVar(&up.clientAddress, "client-address", DefaultClientAddress.String(), "this machine's public address as seen by security groups and public access CIDRs")
	f.BoolVar(&up.refuseFast, "refuse-fast", false, "reset connections that a cluster's endpoint access refuses, instead of leaving them unanswered for 30 seconds (for test suites)")
	f.StringVar(&up.images, "images", "assumed", "which images nodes find in registries other than ECR's: assumed, all of them; strict, none")
	f.StringVar(&up.nodeRuntime, "node-runtime", "simulated", "what runs instances, and pods of Fargate profiles, without the tag drydock:runtime: simulated, containers (see drydock doctor containers), or auto, containers if possible")
	f.StringVar(&up.internet, "internet", "off", "whether machines that run containers reach the real internet, as far as their network lets them: on or off")
	f.IntVar(&up.warmSpares, "warm-spares", 1, "number of control planes to keep ready for new clusters")
	f.StringSliceVar(&up.etcd.Endpoints, "etcd-endpoints", nil, "use this etcd instead of the embedded one")
	f.StringVar(&up.etcd.CAFile, "etcd-cacert", "", "CA certificate of the external etcd")
	f.StringVar(&up.etcd.CertFile, "etcd-cert", "", "client certificate for the external etcd")
	f.StringVar(&up.etcd.KeyFile, "etcd-key", "", "client key for the external etcd")
	f.StringVar(&up.etcd.Username, "etcd-username", "", "user of the external etcd")
	f.StringVar(&up.etcd.PasswordFile, "etcd-password-file", "", "file with that user's password")
	f.StringToIntVar(&up.quotas, "quota", nil, "raise a service quota: "+strings.Join(Quotas, ", "))
	f.StringVar(&up.etcd.Prefix, "etcd-prefix", "/drydock", "key prefix in the external etcd")
	return cmd
}

func (up *upOptions) config() (DaemonConfig, error) {
	listen, err := netip.ParseAddr(up.listen)
	if err != nil {
		return DaemonConfig{}, fmt.Errorf("--listen %q is not an IP address", up.listen)
	}
	client, err := netip.ParseAddr(up.clientAddress)
	if err != nil {
		return DaemonConfig{}, fmt.Errorf("--client-address %q is not an IP address", up.clientAddress)
	}
	if up.timing != "fast" && up.timing != "aws" {
		return DaemonConfig{}, fmt.Errorf("--timing %q is neither fast nor aws", up.timing)
	}
	if up.images != "assumed" && up.images != "strict" {
		return DaemonConfig{}, fmt.Errorf("--images %q is neither assumed nor strict", up.images)
	}
	if !slices.Contains([]string{"simulated", "containers", "auto"}, up.nodeRuntime) {
		return DaemonConfig{}, fmt.Errorf("--node-runtime %q is neither simulated nor containers nor auto", up.nodeRuntime)
	}
	if up.internet != "on" && up.internet != "off" {
		return DaemonConfig{}, fmt.Errorf("--internet %q is neither on nor off", up.internet)
	}
	if up.warmSpares < 0 {
		return DaemonConfig{}, errors.New("--warm-spares cannot be negative")
	}
	for name, v := range up.quotas {
		if !slices.Contains(Quotas, name) || v < 1 {
			return DaemonConfig{}, fmt.Errorf("--quota %s=%d: only these quotas can be set, to more than zero: %s", name, v, strings.Join(Quotas, ", "))
		}
	}
	for _, name := range up.allowHosts {
		if !hostName.MatchString(name) {
			return DaemonConfig{}, fmt.Errorf("--allow-host %q is not a host name: give it without scheme and port, such as drydock.example.com or *.example.com", name)
		}
	}
	dir, err := filepath.Abs(up.dataDir)
	if err != nil {
		return DaemonConfig{}, err
	}
	return DaemonConfig{
		DataDir:       dir,
		Listen:        netip.AddrPortFrom(listen, up.port),
		AllowHosts:    up.allowHosts,
		Ephemeral:     up.ephemeral,
		Timing:        up.timing,
		ClientAddress: client,
		RefuseFast:    up.refuseFast,
		StrictImages:  up.images == "strict",
		WarmSpares:    up.warmSpares,
		NodeRuntime:   up.nodeRuntime,
		Internet:      up.internet == "on",
		Etcd:          up.etcd,
		Quotas:        up.quotas,
	}, nil
}

func (up *upOptions) runForeground(ctx context.Context, dc DaemonConfig, cfg Config) error {
	return cfg.RunDaemon(ctx, dc, func(info api.DaemonInfo) {
		up.describe(info, dc)
	})
}

func (up *upOptions) describe(info api.DaemonInfo, dc DaemonConfig) {
	where := info.DataDir
	if dc.Ephemeral {
		where += " (no data is kept)"
	}
	up.progress("Drydock %s is up.", info.Version)
	up.progress("  AWS endpoint   %s  (https on the same port)", info.URL)
	up.progress("  data           %s", where)
	up.progress("  credentials    access key %s, region us-east-1", info.AccessKeyID)
	report := probe.Run()
	up.progress("  nodes          %s", runtimes(report))
	if info.Internet {
		up.progress("  internet       %s", internet(report))
	}
	if info.LogFile != "" {
		up.progress("  log            %s", info.LogFile)
	}
	if info.NamedCAFile != "" {
		up.progress("  CA             %s  (for https to --allow-host names)", info.NamedCAFile)
	}
	if info.Notice != "" {
		up.progress("%s", info.Notice)
	}
	up.progress("Next: eval \"$(drydock env%s)\"", dataDirFlag(info.DataDir))
}

// dataDirFlag returns the flag that a pasted command needs if the data folder is not the default one.
func dataDirFlag(dir string) string {
	if d, err := filepath.Abs(defaultDataDir()); err == nil && d == dir {
		return ""
	}
	return " --data-dir " + shellQuote(dir)
}

// runDetached starts this program again in a session of its own and waits until it has written its record or ended.
func (up *upOptions) runDetached(ctx context.Context, dc DaemonConfig) error {
	if info, err := up.readInfo(); err == nil {
		return withHint(fmt.Errorf("a daemon is already running on %s (process %d, %s)", dc.DataDir, info.PID, info.URL), "drydock status")
	}
	// The daemon listens for itself. If it could not, there should not be a data folder.
	free, err := Listen(ctx, dc)
	if err != nil {
		return err
	}
	_ = free.Close()
	if err := os.MkdirAll(dc.DataDir, 0o700); err != nil {
		return withHint(fmt.Errorf("cannot use the data folder: %w", err), "drydock up --data-dir FOLDER")
	}
	logFile := filepath.Join(dc.DataDir, "drydock.log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return withHint(fmt.Errorf("cannot write the log: %w", err), "drydock up --data-dir FOLDER")
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := make([]string, 0, len(os.Args))
	for _, a := range os.Args[1:] {
		if !slices.Contains([]string{"-d", "--detach", "--detach=true", "--wait", "--wait=true"}, a) {
			args = append(args, a)
		}
	}
	child := exec.Command(self, args...)
	child.Env = append(os.Environ(), "DRYDOCK_LOG_FILE="+logFile)
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return fmt.Errorf("starting the daemon: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("the daemon failed to start: %w\n%s", err, tail(logFile))
		case <-deadline.C:
			return withHint(fmt.Errorf("the daemon (process %d) was not ready after 2 minutes", child.Process.Pid), "less "+logFile)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if info, err := up.readInfo(); err == nil && info.PID == child.Process.Pid {
				if up.wait {
					if err := up.waitForClusters(ctx, ended, clustersPatience); err != nil {
						return err
					}
				}
				up.describe(info, dc)
				return nil
			}
		}
	}
}

// clustersPatience is how long clusters may take to answer after a start.
const clustersPatience = 5 * time.Minute

// waitForClusters returns when every cluster answers, except those that are being deleted
// or have failed.
func (up *upOptions) waitForClusters(ctx context.Context, ended <-chan error, patience time.Duration) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := up.status(ctx)
		if err != nil {
			return err
		}
		var waiting []string
		for i := range s.Clusters {
			c := &s.Clusters[i]
			if c.ControlPlane != "ready" && c.Status != "DELETING" && c.Status != "FAILED" {
				waiting = append(waiting, strings.TrimSpace(c.Name+" "+c.ControlPlane))
			}
		}
		if len(waiting) == 0 {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the daemon ended: %w\n%s", err, tail(s.LogFile))
		case <-deadline.C:
			return withHint(fmt.Errorf("the daemon is up, but after %v these clusters do not answer: %s", patience, strings.Join(waiting, "; ")), "drydock status"+dataDirFlag(s.DataDir))
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tail returns the last lines of a log, without the daemon's own prefix.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) > 5 {
		lines = lines[len(lines)-5:]
	}
	return strings.TrimPrefix(strings.Join(lines, "\n"), "drydock: ")
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/atomicfile"
)

func newSSH(o *globalOptions) *cobra.Command {
	var place api.Place
	cmd := &cobra.Command{
		Use:   "ssh [USER@]INSTANCE|ADDRESS [SSH OPTIONS] [COMMAND]",
		Short: "Run ssh to an instance",
		Long: `Run ssh to an instance, by its ID, its public address or its public DNS name.

This is your own ssh, with a ProxyCommand that connects to the instance as from this
machine's address on AWS (--client-address of drydock up). Public addresses, security
groups, network ACLs and routes decide whether it gets there, as on AWS. "drydock why
reach --from laptop --to i-…:22" explains a time-out. An instance without a public
address is reached through a bastion (ssh -J), Session Manager or an Instance Connect
endpoint.

The user is ec2-user for instance IDs, unless you name another. The key comes from
your agent or from -i.

"drydock run -- ssh ..." does the same, also for the ssh, scp and sftp that a script
runs. "drydock ssh-config" prints the configuration for ~/.ssh/config.`,
		Example: `  drydock ssh i-0123456789abcdef0 -i key.pem
  drydock ssh ec2-user@3.80.12.7 -i key.pem -L 8080:localhost:80
  drydock ssh i-0123456789abcdef0 -i key.pem -- sudo journalctl -u kubelet
  drydock run -- scp -i key.pem backup.tar ec2-user@3.80.12.7:`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := o.readInfo()
			if err != nil {
				return err
			}
			bin, err := o.writeSSH(info, place, "")
			if err != nil {
				return err
			}
			path := filepath.Join(bin, "ssh")
			if _, err := os.Stat(path); err != nil {
				return &ExitError{127, withHint(errors.New("ssh is not installed"), "ssh -V")}
			}
			return o.runChild(child(path, append([]string{"ssh"}, args...), os.Environ()))
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after the destination are ssh's
	placeFlags(cmd, &place)
	return cmd
}

func placeFlags(cmd *cobra.Command, p *api.Place) {
	cmd.Flags().StringVar(&p.Account, "account", defaultAccount(), accountUsage)
	cmd.Flags().StringVar(&p.Region, "region", defaultRegion(), "the region")
}

func newSSHConfig(o *globalOptions) *cobra.Command {
	var place api.Place
	cmd := &cobra.Command{
		Use:   "ssh-config",
		Short: "Print the configuration with which ssh reaches instances",
		Long: `Print the configuration with which ssh reaches instances: a ProxyCommand for
instance IDs, the names of instances, the addresses of the account's VPCs and the
public addresses of its running instances. Run it again when instances' addresses
have changed.

"drydock run -- ssh ..." needs no configuration.`,
		Example: `  drydock ssh-config >> ~/.ssh/config
  drydock ssh-config > drydock.conf && ssh -F drydock.conf i-0123456789abcdef0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), sshPatience)
			defer cancel()
			hosts, err := o.addressPatterns(ctx, place)
			if err != nil {
				return err
			}
			text, err := o.sshConfig(place, strings.Join(hosts, " "), "")
			if err == nil {
				err = os.MkdirAll(filepath.Join(o.dataDir, "ssh"), 0o700) // for known_hosts
			}
			if err == nil {
				_, err = io.WriteString(o.streams.Out, text)
			}
			return err
		},
	}
	placeFlags(cmd, &place)
	return cmd
}

// instanceNames are patterns that match the IDs and names of instances.
var instanceNames = []string{"i-*", "ec2-*.amazonaws.com", "ip-*.ec2.internal", "ip-*.compute.internal", "i-*.ec2.internal", "i-*.compute.internal", "serial-console.ec2-instance-connect.*.aws"}

// addressPatterns returns patterns that match the IDs, names and addresses of instances.
func (o *globalOptions) addressPatterns(ctx context.Context, place api.Place) ([]string, error) {
	cfg, err := o.callerConfig(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Region = cmp.Or(place.Region, cfg.Region)
	if asRoot(place.Account) != nil {
		cfg.Credentials = credentials.NewStaticCredentialsProvider(place.Account, "test", "")
	}
	ec2 := awsec2.NewFromConfig(cfg)
	vpcs, err := ec2.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{})
	if err != nil {
		return nil, err
	}
	out := slices.Clone(instanceNames)
	for _, v := range vpcs.Vpcs {
		for _, c := range v.CidrBlockAssociationSet {
			out = append(out, rangePatterns(*c.CidrBlock)...)
		}
	}
	pages := awsec2.NewDescribeInstancesPaginator(ec2, &awsec2.DescribeInstancesInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				if i.PublicIpAddress != nil {
					out = append(out, *i.PublicIpAddress)
				}
			}
		}
	}
	return out, nil
}

// rangePatterns returns patterns that match the addresses of an IPv4 range. The range has the size of a VPC's: /16 to /28.
func rangePatterns(cidr string) (out []string) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() {
		return nil
	}
	whole := p.Bits() / 8 // octets
	free := 8 - p.Bits()%8
	octets := p.Masked().Addr().As4()
	if free == 8 {
		return []string{join(octets[:whole]) + strings.Repeat(".*", min(4-whole, 1))}
	}
	for i := range 1 << free {
		last := append(append([]byte{}, octets[:whole]...), octets[whole]+byte(i))
		out = append(out, join(last)+strings.Repeat(".*", min(3-whole, 1)))
	}
	return out
}

func join(octets []byte) string {
	parts := make([]string, len(octets))
	for i, b := range octets {
		parts[i] = fmt.Sprint(b)
	}
	return strings.Join(parts, ".")
}

// sshConfig returns a configuration of ssh for the hosts that match patterns. flags are further flags for ssh-proxy.
func (o *globalOptions) sshConfig(place api.Place, patterns, flags string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	data, err := filepath.Abs(o.dataDir)
	if err != nil {
		return "", err
	}
	quoted := func(s string) string { return strings.ReplaceAll(shellQuote(s), "%", "%%") }
	proxy := quoted(self) + " ssh-proxy --data-dir " + quoted(data)
	if place.Account != "" {
		proxy += " --account " + quoted(place.Account)
	}
	if place.Region != "" {
		proxy += " --region " + quoted(place.Region)
	}
	known := strings.ReplaceAll(filepath.Join(data, "ssh", "known_hosts"), "%", "%%")
	return fmt.Sprintf(`# Written by drydock.
Host i-*
    User ec2-user
Host %s
    ProxyCommand %s%s -- '%%h' '%%p'
    UserKnownHostsFile "%s" ~/.ssh/known_hosts
`, patterns, proxy, flags, known), nil
}

// writeSSH writes a configuration of ssh for all hosts, and scripts that run ssh, scp and sftp with it, into a folder for
// place. It returns the scripts' folder. For drydock run, bundle is not empty: the scripts then also connect to hosts outside
// the simulated network, and the aws CLI's tunnels trust bundle. place is then empty, and the account and region come from
// the environment.
func (o *globalOptions) writeSSH(info api.DaemonInfo, place api.Place, bundle string) (string, error) {
	root := filepath.Join(info.DataDir, "ssh")
	dir, flags := filepath.Join(root, url.PathEscape(place.Account+"-"+place.Region)), ""
	if bundle != "" {
		dir, flags = filepath.Join(root, "run"), " --anywhere"
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return "", err
	}
	text, err := o.sshConfig(place, "*", flags)
	if err != nil {
		return "", err
	}
	// With -F, ssh does not read its usual files. The user's own settings for a host take precedence.
	text = "Include ~/.ssh/config\n" + text + "Host *\nInclude /etc/ssh/ssh_config\n"
	config := filepath.Join(dir, "config")
	if err := rewrite(config, text, 0o600); err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, name := range runPrograms {
		found, err := lookOutside(name, root)
		script, trusting := "", bundle != "" && trusts
		switch {
		case err != nil: // it is not installed
		case name == "aws" && trusting:
			script = trustingAWS(self, bundle, found)
		case name == "ssh" && trusting:
			script = "#!/bin/sh\n" + trustingSSH(self, bundle) + "exec " + shellQuote(found) + " -F " + shellQuote(config) + " \"$@\"\n"
		case name != "aws":
			script = "#!/bin/sh\nexec " + shellQuote(found) + " -F " + shellQuote(config) + " \"$@\"\n"
		}
		if script == "" {
			continue
		}
		if err := rewrite(filepath.Join(bin, name), script, 0o700); err != nil {
			return "", err
		}
	}
	return bin, nil
}

// runPrograms are the programs that drydock run runs by scripts: those that accept ssh's configuration with -F, and the aws CLI.
var runPrograms = []string{"ssh", "scp", "sftp", "aws"}

// lookOutside finds a program in $PATH, skipping the entries below the folder not.
func lookOutside(name, not string) (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if dir == "" || strings.HasPrefix(dir, not+string(filepath.Separator)) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", exec.ErrNotFound
}

// rewrite replaces a file, unless it already has the content. The replacement is atomic, because another program may be
// reading the file.
func rewrite(file, text string, perm os.FileMode) error {
	if old, err := os.ReadFile(file); err == nil && string(old) == text {
		return nil
	}
	return atomicfile.Write(file, []byte(text), perm)
}

// newSSHProxy returns the command that ssh runs as its ProxyCommand.
func newSSHProxy(o *globalOptions) *cobra.Command {
	var place api.Place
	var anywhere bool
	cmd := &cobra.Command{
		Use:    "ssh-proxy HOST PORT",
		Short:  "Connect standard input and output to a port of an instance",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !proxyHost.MatchString(args[0]) {
				return &ExitError{255, fmt.Errorf("%q is not the name of a host", args[0])}
			}
			daemon, err := o.client()
			if err != nil {
				return &ExitError{255, err}
			}
			conn, err := daemon.Connect(cmd.Context(), place, args[0], args[1])
			if said, ok := errors.AsType[*api.Error](err); ok && anywhere && said.Status == http.StatusMisdirectedRequest {
				conn, err = (&net.Dialer{Timeout: outsidePatience}).DialContext(cmd.Context(), "tcp", net.JoinHostPort(args[0], args[1]))
			} else if ok { // in ssh's own words
				_, _ = fmt.Fprintf(o.streams.Err, "ssh: connect to host %s port %s: %s\n", args[0], args[1], said.Message)
				return &ExitError{Code: 255}
			}
			if err != nil {
				return &ExitError{255, err}
			}
			defer conn.Close()
			go func() { // ends with the process
				_, _ = io.Copy(conn, o.streams.In)
				if half, ok := conn.(interface{ CloseWrite() error }); ok {
					_ = half.CloseWrite() // the other end may be gone
				}
			}()
			_, err = io.Copy(o.streams.Out, conn)
			if err != nil && !errors.Is(err, net.ErrClosed) {
				return &ExitError{255, err}
			}
			return nil
		},
	}
	placeFlags(cmd, &place)
	cmd.Flags().BoolVar(&anywhere, "anywhere", false, "connect directly to hosts that are not in the simulated network")
	return cmd
}

// proxyHost matches host names and addresses. ssh passes names to its ProxyCommand unchecked.
var proxyHost = regexp.MustCompile(`^[A-Za-z0-9._:][A-Za-z0-9._:-]*$`)

// sshPatience bounds the calls of drydock ssh-config.
const sshPatience = 30 * time.Second

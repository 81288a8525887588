package child

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	//lint:ignore SA1019 client-go's Upgrader has its types
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	transport "k8s.io/client-go/transport/spdy"
	cmdattach "k8s.io/kubectl/pkg/cmd/attach"
	cmdexec "k8s.io/kubectl/pkg/cmd/exec"
	forward "k8s.io/kubectl/pkg/cmd/portforward"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// patience is how long exec, attach and port-forward wait for a pod by default, as with kubectl.
const patience = 60 * time.Second

// exec is kubectl exec. kubectl's own cannot connect by the machine's network.
func (p *process) exec(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	o := &cmdexec.ExecOptions{StreamOptions: cmdexec.StreamOptions{IOStreams: streams}, Executor: executor{p}}
	cmd := &cobra.Command{
		Use: "exec (POD | TYPE/NAME) [-c CONTAINER] [flags] -- COMMAND [args...]", DisableFlagsInUseLine: true, Short: "Execute a command in a container",
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(o.Complete(f, cmd, args, cmd.ArgsLenAtDash()))
			cmdutil.CheckErr(o.Validate())
			cmdutil.CheckErr(o.Run())
		},
	}
	streamFlags(cmd, &o.StreamOptions)
	return cmd
}

// attach is kubectl attach.
func (p *process) attach(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	o := cmdattach.NewAttachOptions(streams)
	o.Attach = executor{p}
	cmd := &cobra.Command{
		Use: "attach (POD | TYPE/NAME) -c CONTAINER", DisableFlagsInUseLine: true, Short: "Attach to a running container",
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(o.Complete(f, cmd, args))
			cmdutil.CheckErr(o.Validate())
			cmdutil.CheckErr(o.Run())
		},
	}
	streamFlags(cmd, &o.StreamOptions)
	return cmd
}

func streamFlags(cmd *cobra.Command, o *cmdexec.StreamOptions) {
	cmdutil.AddPodRunningTimeoutFlag(cmd, patience)
	cmdutil.AddContainerVarFlags(cmd, &o.ContainerName, o.ContainerName)
	cmd.Flags().BoolVarP(&o.Stdin, "stdin", "i", o.Stdin, "Pass stdin to the container")
	cmd.Flags().BoolVarP(&o.TTY, "tty", "t", o.TTY, "Stdin is a TTY")
	cmd.Flags().BoolVarP(&o.Quiet, "quiet", "q", o.Quiet, "Only print output from the remote session")
}

// portForward is kubectl port-forward. It fails when it listens, unless it has failed before.
func (p *process) portForward(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	o := forward.NewDefaultPortForwardOptions(streams)
	o.PortForwarder = forwarder{p, streams}
	cmd := &cobra.Command{
		Use: "port-forward TYPE/NAME [options] [LOCAL_PORT:]REMOTE_PORT [...[LOCAL_PORT_N:]REMOTE_PORT_N]", DisableFlagsInUseLine: true,
		Short: "Forward one or more local ports to a pod",
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(o.Complete(f, cmd, args))
			cmdutil.CheckErr(o.Validate())
			cmdutil.CheckErr(o.RunPortForwardContext(cmd.Context()))
		},
	}
	cmdutil.AddPodRunningTimeoutFlag(cmd, patience)
	cmd.Flags().StringSliceVar(&o.Address, "address", []string{"localhost"}, "Addresses to listen on (comma separated).")
	return cmd
}

// upgrade returns what upgrades a connection by the machine's network.
func (p *process) upgrade(cfg *rest.Config) (http.RoundTripper, transport.Upgrader, error) {
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, nil, err
	}
	upgrader, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{
		PingPeriod: 5 * time.Second, UpgradeTransport: &http.Transport{DialContext: p.dial, TLSClientConfig: tls},
	})
	if err != nil {
		return nil, nil, err
	}
	rt, err := rest.HTTPWrappersForConfig(cfg, upgrader)
	return rt, upgrader, err
}

// An executor runs commands in pods.
type executor struct{ p *process }

var (
	_ cmdexec.RemoteExecutor = executor{}
	_ cmdattach.RemoteAttach = executor{}
)

func (e executor) Execute(u *url.URL, cfg *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error {
	return e.ExecuteWithContext(e.p.ctx, u, cfg, stdin, stdout, stderr, tty, sizes)
}

func (e executor) ExecuteWithContext(ctx context.Context, u *url.URL, cfg *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error {
	rt, upgrader, err := e.p.upgrade(cfg)
	if err != nil {
		return err
	}
	exec, err := remotecommand.NewSPDYExecutorForTransports(rt, upgrader, http.MethodPost, u)
	if err != nil {
		return err
	}
	return exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr, Tty: tty, TerminalSizeQueue: sizes})
}

func (e executor) Attach(u *url.URL, cfg *rest.Config, stdin io.Reader, stdout, stderr io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error {
	return e.Execute(u, cfg, stdin, stdout, stderr, tty, sizes)
}

// A forwarder forwards ports to pods.
type forwarder struct {
	p       *process
	streams genericiooptions.IOStreams
}

func (w forwarder) ForwardPorts(method string, u *url.URL, o forward.PortForwardOptions) error {
	rt, upgrader, err := w.p.upgrade(o.Config)
	if err != nil {
		return err
	}
	fw, err := portforward.NewOnAddresses(transport.NewDialer(upgrader, &http.Client{Transport: rt}, method, u), o.Address, o.Ports, o.StopChannel, o.ReadyChannel, w.streams.Out, w.streams.ErrOut)
	if err != nil {
		return err
	}
	return fw.ForwardPorts()
}

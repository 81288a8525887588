package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	computers "github.com/drydock-dev/drydock/internal/machine/simulated"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/ami"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// A system is a machine's operating system as its kubelet sees it. Without ami it has no shell, like Bottlerocket's.
type system struct {
	m     *instance
	ami   *ami.Machine
	again bool // the kubelet was restarted while it ran
	began bool // a kubelet has run in this boot
	// booted is the configuration with which nodeadm started the kubelet in this boot, or nil.
	booted *userdata.Config
}

// Image implements computers.Guest.
func (m *instance) Image() (*computers.Image, error) {
	bottlerocket := m.in.Image.Family == images.Bottlerocket
	if m.in.Fargate || m.rt.options.RunScript == nil || bottlerocket && m.in.Operator != "" { // EKS Auto Mode nodes do not allow access
		return nil, nil
	}
	local := &localHTTP{dial: m.dial}
	world := ami.World{Clock: m.rt.clock, Patience: m.rt.options.Patience, Metadata: noMetadata{}, HTTP: local, Dial: m.dial, Kubectl: m.rt.options.Kubectl}
	if m.rt.options.Metadata != nil {
		world.Metadata = m.rt.options.Metadata(m.in.ID)
	}
	if m.rt.options.HTTP != nil {
		local.out = m.rt.options.HTTP(m.in)
	}
	world.DescribeCluster = func(ctx context.Context, region, name string) (node.ClusterInfo, error) {
		if m.rt.options.DescribeCluster == nil {
			return node.ClusterInfo{}, errors.New("Could not connect to the endpoint URL: \"https://eks." + region + ".amazonaws.com/clusters/" + name + "\"") //nolint:staticcheck // the AWS CLI's text
		}
		info, err := m.rt.options.DescribeCluster(ctx, m.in, region, name)
		m.step(ctx, node.StepDescribe, err, "cluster "+name+" at "+info.Endpoint)
		return info, err
	}
	world.PrivateDNSName = func(ctx context.Context) (string, error) {
		err := m.call(ctx, node.ActionDescribeInstances)
		m.step(ctx, node.StepName, err, m.in.PrivateDNSName)
		return m.in.PrivateDNSName, err
	}
	interfaceName := func(device int) string {
		if m.in.Image.Family == images.AL2 || bottlerocket {
			return fmt.Sprintf("eth%d", device)
		}
		return fmt.Sprintf("ens%d", device+5)
	}
	world.Surroundings = m.surroundings(interfaceName)
	world.Broken = func(unit string) bool { return m.broken(unit) != nil }
	programs, err := ami.New(m.in, world)
	if err != nil {
		return nil, err
	}
	m.ami = programs
	if bottlerocket {
		env, prompt := programs.Shells()
		return &computers.Image{
			Env: env, Prompt: prompt,
			FS: programs.FS, Outside: programs.Outside, Programs: programs.Programs(), Boot: programs.StartServices, InterfaceName: interfaceName,
			Full: m.diskFull, Done: programs.Done,
		}, nil
	}
	return &computers.Image{
		FS: programs.FS, Outside: programs.Outside, Programs: programs.Programs(), Boot: programs.StartServices,
		CloudInit: ami.CloudInitVersion(m.in.Image.Family), DefaultUser: "ec2-user",
		SSH: &computers.SSH{
			Version: ami.SSHVersion(m.in.Image.Family), Running: func() bool { return programs.Active("sshd") },
			Log: func(text string) { programs.Log("sshd", text) },
		},
		InterfaceName: interfaceName, Full: m.diskFull, Prepare: programs.Prepare, Done: programs.Done,
	}, nil
}

// noMetadata is for runtimes without a metadata service. It keeps guests from reaching the host's.
type noMetadata struct{}

func (noMetadata) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("there is no instance metadata service")
}

// configuration returns how the kubelet is to join: from the kubelet's files if a script writes them, or from user
// data if nodeadm or Bottlerocket reads it.
func (os *system) configuration(family images.Family, userData []byte) (*userdata.Config, error) {
	switch {
	case os.booted != nil:
		return os.ami.Reread(os.booted)
	case os.ami != nil && family == images.Bottlerocket && os.began && !os.ami.Active("kubelet"):
		return nil, ami.ErrNotStarted
	case os.ami == nil || family != images.AL2:
		return userdata.Parse(family, userData)
	}
	cfg, err := os.ami.Kubelet()
	if errors.Is(err, ami.ErrNotStarted) {
		return cfg, fmt.Errorf("%w: user data did not run /etc/eks/bootstrap.sh to its end: %w", err, userdata.ErrNoBootstrap)
	}
	return cfg, err
}

// stopped reports whether a kubelet has run and was stopped.
func (os *system) stopped() bool {
	return os.began && os.ami != nil && !os.ami.Active("kubelet") && !os.ami.KubeletFailed()
}

// awaitKubelet waits until something on the machine starts or restarts the kubelet. It returns false if nothing can,
// or ctx ended.
func (os *system) awaitKubelet(ctx context.Context) bool {
	if os.ami == nil {
		return false
	}
	if os.again {
		os.again = false
		return ctx.Err() == nil
	}
	for {
		var again <-chan time.Time
		stop := func() bool { return false }
		delay, failed := time.Second, os.ami.KubeletFailed()
		if failed {
			delay = ami.RestartDelay
		}
		if failed || os.m.rt.options.Broken != nil && !os.ami.KubeletInactive() { // the end of a fault is not signalled
			timer := os.m.rt.clock.NewTimer(delay)
			again, stop = timer.C(), timer.Stop
		}
		select {
		case <-os.ami.KubeletChanged():
			stop()
			return true
		case <-again:
			if failed {
				os.ami.RestartKubelet()
				return ctx.Err() == nil
			}
			os.ami.Refresh("kubelet")
		case <-ctx.Done():
			stop()
			return false
		}
	}
}

// untilRestart returns a context that also ends when the kubelet is stopped or restarted. Call stop before
// awaitKubelet.
func (os *system) untilRestart(ctx context.Context) (limited context.Context, stop func()) {
	limited, cancel := context.WithCancel(ctx)
	if os.ami == nil {
		return limited, cancel
	}
	select { // drop the signal that started this kubelet
	case <-os.ami.KubeletChanged():
	default:
	}
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-os.ami.KubeletChanged():
			os.again = true // read after watcher.Wait
			cancel()
		case <-limited.Done():
		}
	})
	return limited, func() { cancel(); watcher.Wait() }
}

// logFailure writes to the kubelet's log what the kubelet writes when it cannot join.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubelet_node_status.go
func (os *system) logFailure(k *kubelet, err error) {
	if k.hidden != nil {
		os.klog('E', "kubelet_node_status.go:114", "Unable to register node with API server, error getting existing node", "err", k.said(k.hidden, "Get", k.nodePath()), "node", k.name)
		return
	}
	os.klog('E', "kubelet_node_status.go:108", "Unable to register node with API server", "err", k.said(err, "Post", "/api/v1/nodes"), "node", k.name)
}

// said formats the error of a call to the API server as client-go does.
func (k *kubelet) said(err error, verb, path string) string {
	if _, ok := errors.AsType[*credentialsError](err); ok {
		return fmt.Sprintf("%s %q: getting credentials: exec: executable aws failed with exit code 255", verb, k.endpoint+path)
	}
	if se, ok := errors.AsType[*stepError](err); ok {
		err = se.err
	}
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return err.Error()
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return fmt.Sprintf("%s %q: %s", verb, k.endpoint+path, err)
}

// klog writes to the kubelet's log, if there is one.
func (os *system) klog(level byte, at, message string, keysAndValues ...any) {
	if os != nil && os.ami != nil {
		os.ami.Klog("kubelet", level, at, message, keysAndValues...)
	}
}

// ipamdLog writes to the log of the VPC CNI plugin's daemon, if there is one.
func (os *system) ipamdLog(format string, args ...any) {
	if os != nil && os.ami != nil {
		os.ami.IPAMDLog("error", fmt.Sprintf(format, args...))
	}
}

package simulated

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/guest"
	"github.com/drydock-dev/drydock/internal/node/guest/ami"
	"github.com/drydock-dev/drydock/internal/node/guest/cloudinit"
	"github.com/drydock-dev/drydock/internal/node/guest/shell"
	"github.com/drydock-dev/drydock/internal/node/guest/vfs"
	"github.com/drydock-dev/drydock/internal/node/imds"
)

// A system is the operating system of a machine: an image with cloud-init. The
// zero system is one without, such as Bottlerocket's.
type system struct {
	m       *instance
	ami     *ami.Machine // nil: no shell, no cloud-init
	scripts bool         // user data has run some: what they wrote is kept
	again   bool         // the kubelet was restarted while it ran
}

// A disk is what is kept of a machine's root volume.
type disk struct {
	// BootID is the boot that wrote it. A machine that never stopped, and whose
	// daemon was restarted, finds its own here.
	BootID string
	Files  []vfs.Record
}

// bootSystem boots the image: its files, its services, and user data by cloud-init.
// The error is of a machine that cannot boot at all.
func (m *instance) bootSystem(ctx context.Context, userData []byte) (*system, error) {
	os := &system{m: m}
	switch m.in.Image.Family {
	case images.Bottlerocket:
		if !m.sleep(ctx, m.rt.options.BootDuration) {
			return nil, ctx.Err()
		}
		return os, nil
	}
	if m.rt.cfg.RunScript == nil {
		// The runtime has no place to run scripts: NodeConfigs still work.
		cfg, _ := guest.Parse(m.in.Image.Family, userData) // live says what is wrong with it
		for _, s := range cfg.Scripts {
			m.step(ctx, node.StepScript, nil, s+": not executed, simulated nodes run no programs")
		}
		return os, nil
	}
	world := ami.World{Clock: m.rt.clock, Patience: m.rt.options.Patience, Metadata: noMetadata{}}
	if m.rt.cfg.Metadata != nil {
		world.Metadata = m.rt.cfg.Metadata(m.in.ID)
	}
	if m.rt.cfg.HTTP != nil {
		world.HTTP = m.rt.cfg.HTTP(m.in)
	}
	world.DescribeCluster = func(ctx context.Context, region, name string) (node.ClusterInfo, error) {
		if m.rt.cfg.DescribeCluster == nil {
			return node.ClusterInfo{}, errors.New("Could not connect to the endpoint URL: \"https://eks." + region + ".amazonaws.com/clusters/" + name + "\"") //nolint:staticcheck // the AWS CLI's text
		}
		info, err := m.rt.cfg.DescribeCluster(ctx, m.in, region, name)
		m.step(ctx, node.StepDescribe, err, "cluster "+name+" at "+info.Endpoint)
		return info, err
	}
	world.PrivateDNSName = func(ctx context.Context) (string, error) {
		err := m.call(ctx, node.ActionDescribeInstances)
		m.step(ctx, node.StepName, err, m.in.PrivateDNSName)
		return m.in.PrivateDNSName, err
	}
	machine, err := ami.New(m.in, world)
	if err != nil {
		return nil, err
	}
	os.ami = machine
	first, resumed, err := os.load()
	if err != nil {
		return nil, fmt.Errorf("reading the root volume: %w", err)
	}
	machine.StartServices()
	if resumed { // the machine never stopped
		return os, nil
	}
	if !m.sleep(ctx, m.rt.options.BootDuration) {
		return nil, ctx.Err()
	}
	if err := os.cloudInit(ctx, userData, first); err != nil {
		return nil, err
	}
	return os, os.save()
}

// noMetadata is for runtimes without a metadata service: no guest may reach the
// host's.
type noMetadata struct{}

func (noMetadata) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("there is no instance metadata service")
}

// cloudInit runs user data and records what came of it.
func (os *system) cloudInit(ctx context.Context, userData []byte, first bool) error {
	m := os.m
	var keys []string
	if m.rt.cfg.Metadata != nil {
		key, err := imds.Client{Transport: m.rt.cfg.Metadata(m.in.ID)}.Get(ctx, "meta-data/public-keys/0/openssh-key")
		if err == nil {
			keys = append(keys, string(key))
		} else if !errors.Is(err, imds.ErrNotFound) {
			return fmt.Errorf("reading the key pair: %w", err)
		}
	}
	booted := m.rt.clock.Now()
	res, err := cloudinit.Boot(ctx, cloudinit.Host{
		FS: os.ami.FS, InstanceID: m.in.ID, Version: ami.CloudInitVersion(m.in.Image.Family), User: "ec2-user", Keys: keys,
		Run: os.run, Console: &m.console, Now: m.rt.clock.Now,
		Up: func() time.Duration { return m.rt.clock.Since(booted) },
	}, userData, first)
	if err != nil {
		return err
	}
	os.scripts = len(res.Scripts) > 0
	failed := map[string]string{}
	for _, f := range res.Failures {
		failed[f.What] = f.Reason
		m.step(ctx, node.StepScript, fmt.Errorf("%s: %s: %s", f.Module, f.What, f.Reason), "")
	}
	for _, s := range res.Scripts {
		if failed[s] == "" {
			m.step(ctx, node.StepScript, nil, s+" succeeded")
		}
	}
	if len(res.Unknown) > 0 {
		m.step(ctx, node.StepScript, fmt.Errorf("commands that a simulated machine does not have: %s", strings.Join(res.Unknown, ", ")), "")
	}
	return nil
}

// run runs a script of user data.
func (os *system) run(ctx context.Context, file string, env []string, out io.Writer) (int, []string, error) {
	text, err := os.ami.FS.ReadFile(file)
	if err != nil {
		return 0, nil, err
	}
	res, err := os.m.rt.cfg.RunScript(ctx, shell.Job{
		FS: os.ami.FS, Script: text, Name: file, Env: env, Host: os.m.in.PrivateDNSName,
		Stdout: out, Stderr: out, Outside: os.ami.Outside, Programs: os.ami.Programs(), Patience: os.m.rt.options.Patience,
	})
	return res.Status, res.Unknown, err
}

// load brings back what the machine's root volume holds. First says that the
// machine never booted, resumed that it runs on after a restart of the daemon.
func (os *system) load() (first, resumed bool, err error) {
	m := os.m
	if m.rt.cfg.Disks == nil {
		return true, false, nil
	}
	data, ok, err := m.rt.cfg.Disks.Load(m.in.ID)
	if err != nil || !ok {
		return true, false, err
	}
	var d disk
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&d); err != nil {
		return false, false, err
	}
	resumed = d.BootID == m.in.BootID
	if len(d.Files) == 0 {
		return false, resumed, nil
	}
	os.scripts = true
	return false, resumed, os.ami.FS.Restore(d.Files)
}

// groupTag marks the instances of Auto Scaling groups, which are never started again.
const groupTag = "aws:autoscaling:groupName"

// save keeps what scripts wrote. A machine whose user data runs none is the same
// after every boot; of it only that it has booted is kept, so that other user data
// does not run at its next start.
func (os *system) save() error {
	m := os.m
	if m.rt.cfg.Disks == nil || !os.scripts && m.in.Tags[groupTag] != "" {
		return nil
	}
	d := disk{BootID: m.in.BootID}
	if os.scripts {
		d.Files = os.ami.FS.Image()
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(d); err != nil {
		return err
	}
	return m.rt.cfg.Disks.Save(m.in.ID, b.Bytes())
}

// configuration is how the kubelet is to join: from the kubelet's files where a
// script writes these, from user data where nodeadm or Bottlerocket read it.
func (os *system) configuration(family images.Family, userData []byte) (*guest.Config, error) {
	if os.ami == nil || family != images.AL2 {
		return guest.Parse(family, userData)
	}
	cfg, err := os.ami.Kubelet()
	if errors.Is(err, ami.ErrNotStarted) {
		return cfg, fmt.Errorf("%w: user data did not run /etc/eks/bootstrap.sh to its end: %w", err, guest.ErrNoBootstrap)
	}
	return cfg, err
}

// awaitKubelet waits until something on the machine starts or restarts the kubelet.
// False: nothing can, or ctx ended.
func (os *system) awaitKubelet(ctx context.Context) bool {
	if os.ami == nil {
		return false
	}
	if os.again {
		os.again = false
		return ctx.Err() == nil
	}
	select {
	case <-os.ami.KubeletChanged():
		return true
	case <-ctx.Done():
		return false
	}
}

// untilRestart returns a context that also ends when the kubelet is stopped or
// restarted. Call stop before awaitKubelet.
func (os *system) untilRestart(ctx context.Context) (limited context.Context, stop func()) {
	limited, cancel := context.WithCancel(ctx)
	if os.ami == nil {
		return limited, cancel
	}
	select { // what started it
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

// logFailure writes what the kubelet writes when it does not get in.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/kubelet_node_status.go
func (os *system) logFailure(k *kubelet, err error) {
	if se, ok := errors.AsType[*stepError](err); ok {
		err = se.err
	}
	os.klog('E', "kubelet_node_status.go:108", "Unable to register node with API server", "err", err, "node", k.name)
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

// A console keeps the end of what a machine has printed.
type console struct {
	mu  sync.Mutex
	buf []byte
}

// maxConsole is what EC2 keeps of a console.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-console.html
const maxConsole = 64 << 10

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = append(c.buf, p...)
	if n := len(c.buf) - maxConsole; n > 0 {
		c.buf = append([]byte(nil), c.buf[n:]...)
	}
	return len(p), nil
}

func (c *console) text() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.buf)
}

// Console returns the end of what an instance has printed to its console.
func (r *Runtime) Console(instanceID string) ([]byte, bool) {
	r.mu.Lock()
	m := r.machines[instanceID]
	r.mu.Unlock()
	if m == nil {
		return nil, false
	}
	return m.console.text(), true
}

package simulated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/cloudinit"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/sshd"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
	"github.com/drydock-dev/drydock/internal/machine/imds"
)

// A Computer is a simulated machine that is on.
type Computer struct {
	machine.Unsupported

	rt       *Runtime
	in       machine.Instance
	guest    Guest
	image    *Image // nil if it has no shell
	imageErr error
	console  *console
	reboots  int          // reboots since EC2 started it
	before   []vfs.Record // the contents of its disk when it rebooted
	volume   volume
	resumed  bool // it continues after a restart of the daemon

	ctx    context.Context // ends when it is switched off
	cancel context.CancelFunc
	up     chan struct{}  // closed when the operating system is up
	done   chan struct{}  // closed when it has ended
	runs   sync.WaitGroup // running programs and connection handlers

	connections atomic.Uint32 // how many clients have connected to it so far
	jobs        atomic.Int32  // how many jobs the lists of its shells have
	pids        atomic.Uint32 // for the process IDs of jobs
	mu          sync.Mutex
	off         bool // nothing more may start
	listeners   map[int]Listener
	interfaces  []machine.Interface
}

var _ machine.Machine = (*Computer)(nil)

// boot switches on a computer whose instance, console and disk are set. r.mu is held.
func (r *Runtime) boot(c *Computer) {
	c.rt, c.up, c.done = r, make(chan struct{}), make(chan struct{})
	c.ctx, c.cancel = context.WithCancel(r.ctx)
	c.interfaces, c.listeners = c.in.Interfaces, map[int]Listener{}
	c.guest = r.cfg.Guest(c)
	c.image, c.imageErr = c.guest.Image()
	c.Unsupported = machine.Unsupported{ID: c.in.ID, Reason: "its image has no shell"}
	if c.image != nil {
		c.image.FS.Share(r.space, maxDisk)
	}
	r.computers[c.in.ID] = c
	go c.live()
}

// Instance implements machine.Machine.
func (c *Computer) Instance() machine.Instance { return c.in }

// BootID identifies this boot. Unlike the instance's BootID, it changes when the machine reboots itself.
func (c *Computer) BootID() string {
	if c.reboots == 0 {
		return c.in.BootID
	}
	return fmt.Sprintf("%s/%d", c.in.BootID, c.reboots)
}

// Resumed reports whether the machine has not booted, but continues after a restart of the daemon. Only Guest.Run may call it.
func (c *Computer) Resumed() bool { return c.resumed }

// Abilities implements machine.Machine.
func (c *Computer) Abilities() machine.Abilities {
	if c.image == nil {
		return machine.Abilities{machine.Dial}
	}
	return machine.Abilities{machine.Exec, machine.Terminal, machine.FileAccess, machine.Dial, machine.Interfaces}
}

// Booted implements machine.Machine.
func (c *Computer) Booted() <-chan struct{} { return c.up }

// Console implements machine.Machine.
func (c *Computer) Console() []byte { return c.console.text() }

// Stop implements machine.Machine. There is no shutdown sequence that force could skip.
func (c *Computer) Stop(ctx context.Context, _ bool) error {
	if err := c.halt(ctx); err != nil {
		return err
	}
	c.rt.mu.Lock()
	last := c.rt.computers[c.in.ID] == c
	if last {
		delete(c.rt.computers, c.in.ID)
	}
	c.rt.mu.Unlock()
	if last {
		c.guest.Report(ctx, machine.Event{Name: machine.EventStop, Evidence: "powered off"})
	}
	return nil
}

// Reboot implements machine.Machine.
func (c *Computer) Reboot(ctx context.Context) error {
	if err := c.halt(ctx); err != nil {
		return err
	}
	r := c.rt
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return machine.ErrShutdown
	case r.computers[c.in.ID] != c:
		return machine.ErrOff
	}
	next := &Computer{in: c.in, console: c.console, reboots: c.reboots + 1, before: []vfs.Record{}}
	if c.image != nil {
		next.before = c.image.FS.Image()
	}
	next.volume.written = c.volume.written
	r.boot(next)
	return nil
}

// halt switches the computer off and waits until nothing on it runs.
func (c *Computer) halt(ctx context.Context) error {
	c.mu.Lock()
	c.off = true
	c.mu.Unlock()
	c.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-c.done
		c.runs.Wait()
		if c.image != nil {
			c.image.FS.Release()
		}
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping %s: %w", c.in.ID, ctx.Err())
	}
}

// begin registers something that runs on the machine; the caller calls c.runs.Done.
func (c *Computer) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off || c.ctx.Err() != nil {
		return machine.ErrOff
	}
	select {
	case <-c.up:
	default:
		return machine.ErrBooting
	}
	c.runs.Add(1)
	return nil
}

// live runs the computer from boot to end.
func (c *Computer) live() {
	defer close(c.done)
	defer func() {
		if p := recover(); p != nil { // user data is hostile: no guest may end the daemon
			c.rt.cfg.Log.Error("a simulated machine failed", "instance", c.in.ID, "panic", p, "stack", string(debug.Stack()))
			c.report(c.ctx, machine.EventUserData, errors.New("internal error: see the daemon's log"), "")
		}
	}()
	ctx := c.ctx
	if c.in.Fargate {
		c.report(ctx, machine.EventBoot, nil, "a machine of Fargate")
		if c.sleep(ctx, c.rt.cfg.Boot-c.rt.cfg.Clock.Since(c.in.LaunchTime)) {
			close(c.up)
			c.guest.Run(ctx, nil)
		}
		return
	}
	c.report(ctx, machine.EventBoot, nil, c.in.Type.Name+", "+c.in.Image.ID)
	userData, err := c.userData(ctx)
	c.report(ctx, machine.EventMetadata, err, fmt.Sprintf("%d bytes of user data", len(userData)))
	if err != nil {
		return
	}
	if err := c.bootSystem(ctx, userData); err != nil {
		c.report(ctx, machine.EventUserData, err, "")
		return
	}
	c.guest.Run(ctx, userData)
}

func (c *Computer) report(ctx context.Context, name string, err error, evidence string) {
	c.guest.Report(ctx, machine.Event{Name: name, Err: err, Evidence: evidence})
}

// userData reads the instance's user data from the metadata service, like cloud-init. If the service is disabled,
// there is none.
func (c *Computer) userData(ctx context.Context) ([]byte, error) {
	if c.rt.cfg.Metadata == nil {
		return c.in.UserData, nil
	}
	data, err := imds.Client{Transport: c.rt.cfg.Metadata(c.in.ID)}.Get(ctx, "user-data")
	if errors.Is(err, imds.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading user data from the instance metadata service: %w", err)
	}
	return data, nil
}

// bootSystem boots the image: its files, its services, and user data by cloud-init. It returns an error if the
// machine cannot boot at all.
func (c *Computer) bootSystem(ctx context.Context, userData []byte) error {
	if c.imageErr != nil {
		return c.imageErr
	}
	if c.image == nil {
		if !c.sleep(ctx, c.rt.cfg.Boot) {
			return ctx.Err()
		}
		close(c.up)
		return nil
	}
	first, resumed, err := c.startSystem()
	if err != nil {
		return err
	}
	if c.resumed = resumed; resumed { // the machine never stopped
		close(c.up)
		return nil
	}
	if !c.sleep(ctx, c.rt.cfg.Boot) {
		return ctx.Err()
	}
	close(c.up)
	if c.image.CloudInit == "" { // something else reads user data
		return c.save()
	}
	err = c.cloudInit(ctx, userData, first)
	if c.image.SSH != nil {
		_, _ = io.WriteString(c.console, sshd.Announce(c.image.FS)) // writing to the console cannot fail
	}
	if err != nil {
		return err
	}
	return c.save()
}

// startSystem reads the root volume and starts the system on it. first and resumed are those of load.
func (c *Computer) startSystem() (first, resumed bool, err error) {
	select {
	case c.rt.turns <- struct{}{}:
		defer func() { <-c.rt.turns }()
	case <-c.ctx.Done():
		return false, false, c.ctx.Err()
	}
	if first, resumed, err = c.load(); err != nil {
		return false, false, fmt.Errorf("reading the root volume: %w", err)
	}
	c.mu.Lock()
	err = c.showInterfaces()
	c.mu.Unlock()
	if err != nil {
		return false, false, err
	}
	if err := c.listenSSH(); err != nil {
		return false, false, err
	}
	c.image.Boot()
	return first, resumed, nil
}

// cloudInit runs user data and reports the results.
func (c *Computer) cloudInit(ctx context.Context, userData []byte, first bool) error {
	var keys []string
	if c.rt.cfg.Metadata != nil {
		key, err := imds.Client{Transport: c.rt.cfg.Metadata(c.in.ID)}.Get(ctx, "meta-data/public-keys/0/openssh-key")
		if err == nil {
			keys = append(keys, string(key))
		} else if !errors.Is(err, imds.ErrNotFound) {
			return fmt.Errorf("reading the key pair: %w", err)
		}
	}
	booted := c.rt.cfg.Clock.Now()
	res, err := cloudinit.Boot(ctx, cloudinit.Host{
		FS: c.image.FS, InstanceID: c.in.ID, Version: c.image.CloudInit, User: c.image.DefaultUser, Keys: keys,
		Run: c.runScript, Console: c.console, Now: c.rt.cfg.Clock.Now,
		Up: func() time.Duration { return c.rt.cfg.Clock.Since(booted) },
	}, userData, first)
	if err != nil {
		return err
	}
	if len(res.Scripts) > 0 {
		c.volume.touch()
	}
	failed := map[string]string{}
	for _, f := range res.Failures {
		failed[f.What] = f.Reason
		c.report(ctx, machine.EventScript, fmt.Errorf("%s: %s: %s", f.Module, f.What, f.Reason), "")
	}
	for _, s := range res.Scripts {
		if failed[s] == "" {
			c.report(ctx, machine.EventScript, nil, s+" succeeded")
		}
	}
	if err := res.UnknownCommands(); err != nil {
		c.report(ctx, machine.EventScript, err, "")
	}
	return nil
}

// runScript runs a script of user data.
func (c *Computer) runScript(ctx context.Context, file string, env []string, out io.Writer) (int, []string, error) {
	text, err := c.image.FS.ReadFile(file)
	if err != nil {
		return 0, nil, err
	}
	job := c.job()
	job.Script, job.Name, job.Env, job.Stdout, job.Stderr = text, file, env, out, out
	res, err := c.runJob(ctx, job)
	return res.Status, res.Unknown, err
}

// runJob runs a script or program.
func (c *Computer) runJob(ctx context.Context, job shell.Job) (shell.Result, error) {
	if c.image.Done != nil {
		defer c.image.Done()
	}
	return c.rt.cfg.RunScript(ctx, job)
}

// job returns the part of a job that all programs of the machine share.
func (c *Computer) job() shell.Job {
	if c.image.Prepare != nil {
		c.image.Prepare()
	}
	c.image.FS.Fill(c.full())
	return shell.Job{
		FS: c.image.FS, Host: c.in.PrivateDNSName, Outside: onTerminalOf(nil, c.image.Outside), Programs: slices.Concat(c.image.Programs, terminalPrograms), Patience: c.rt.cfg.Patience,
	}
}

// full reports whether the disk is full.
func (c *Computer) full() bool { return c.image.Full != nil && c.image.Full() }

// sleep waits, and returns false if the wait was cut short.
func (c *Computer) sleep(ctx context.Context, d time.Duration) bool {
	return timing.Sleep(ctx, c.rt.cfg.Clock, d)
}

// A console keeps the end of a machine's console output.
type console struct {
	mu  sync.Mutex
	buf []byte
}

// maxConsole is how much console output EC2 keeps.
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

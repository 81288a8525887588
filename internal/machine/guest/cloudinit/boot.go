package cloudinit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// Files of cloud-init that users look at.
const (
	OutputLog = "/var/log/cloud-init-output.log"
	Log       = "/var/log/cloud-init.log"
	scripts   = "/var/lib/cloud/instance/scripts"
	boothooks = "/var/lib/cloud/instance/boothooks"
)

// Files are those of the machine.
type Files interface {
	accounts.Files
	Open(name string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error)
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string, perm fs.FileMode) error
	Chmod(name string, perm fs.FileMode) error
	Chown(name string, uid, gid int) error
}

// A Host is the machine that boots.
type Host struct {
	FS         Files
	InstanceID string
	// Version is cloud-init's version in the image: "22.2.2".
	Version string
	// User is the default user, ec2-user, who gets the key pair's public key.
	User string
	Keys []string
	// Run runs an executable file of the machine, sends its output to out, and returns its exit status and the
	// commands that the machine does not have. It returns an error if the program was killed.
	Run func(ctx context.Context, file string, env []string, out io.Writer) (status int, unknown []string, err error)
	// Console receives the same output as OutputLog.
	Console io.Writer
	Now     func() time.Time
	// Up returns how long the machine has been up.
	Up func() time.Duration
}

// A Failure is a part of user data that failed.
type Failure struct {
	Module string // scripts-user, bootcmd, write-files, …
	What   string // /var/lib/cloud/instance/scripts/part-001
	Reason string // exit status 1, killed: …
}

// Result is the outcome of user data.
type Result struct {
	// Scripts are the files that were run, in order.
	Scripts  []string
	Failures []Failure
	// Unknown are the commands that the machine does not have. Ignored are the modules of cloud-config and the media
	// types that it does not have.
	Unknown, Ignored []string
}

// UnknownCommands returns an error if scripts use commands that the machine does not have.
func (r *Result) UnknownCommands() error {
	if len(r.Unknown) == 0 {
		return nil
	}
	return &unknownCommandsError{r.Unknown}
}

type unknownCommandsError struct{ names []string }

func (e *unknownCommandsError) Error() string {
	return "commands that the machine does not have: " + strings.Join(e.names, ", ")
}

// Cause returns the kind of the error, for code that explains it.
func (e *unknownCommandsError) Cause() string { return "UnknownCommand" }

type boot struct {
	Host
	out    io.Writer
	log    io.WriteCloser
	result Result
}

// Boot does what cloud-init does with user data at boot. first means that this is the instance's first boot: scripts
// and most modules run only then, boothooks and bootcmd at every boot. It returns an error if the machine cannot
// boot; errors in user data are in the result.
func Boot(ctx context.Context, h Host, userData []byte, first bool) (Result, error) {
	for _, dir := range []string{scripts, boothooks, path.Dir(OutputLog)} {
		if err := h.FS.MkdirAll(dir, 0o755); err != nil {
			return Result{}, err
		}
	}
	output, err := h.FS.Open(OutputLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return Result{}, err
	}
	defer output.Close()
	log, err := h.FS.Open(Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Result{}, err
	}
	defer log.Close()
	b := &boot{Host: h, out: tee{output, h.Console}, log: log}
	b.run(ctx, userData, first)
	return b.result, ctx.Err()
}

// A tee writes to a log, whose disk may be full, and to the console.
type tee struct{ disk, console io.Writer }

func (t tee) Write(p []byte) (int, error) {
	_, _ = t.disk.Write(p) // a full disk does not stop scripts
	if t.console != nil {
		return t.console.Write(p)
	}
	return len(p), nil
}

func (b *boot) stage(name string) {
	fmt.Fprintf(b.out, "Cloud-init v. %s running '%s' at %s. Up %.2f seconds.\n", b.Version, name, b.stamp(), b.Up().Seconds())
}

func (b *boot) stamp() string { return b.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700") }

// warn writes a message of cloud-init's logger to both of its logs.
func (b *boot) warn(source, format string, args ...any) {
	line := fmt.Sprintf("%s - %s[WARNING]: %s\n", b.Now().UTC().Format("2006-01-02 15:04:05,000"), source, fmt.Sprintf(format, args...))
	_, _ = io.WriteString(b.out, line)
	_, _ = io.WriteString(b.log, line) // a full disk does not stop the boot
}

func (b *boot) fail(module, what, reason string) {
	b.result.Failures = append(b.result.Failures, Failure{module, what, reason})
}

// moduleFailed logs what cloud-init logs at the end of a module that failed.
func (b *boot) moduleFailed(module, what string, err error) {
	b.fail(module, what, err.Error())
	b.warn("util.py", "Running module %s failed: %s", module, err)
}

// disableRoot holds the options of root's keys. https://github.com/canonical/cloud-init/blob/main/cloudinit/ssh_util.py
const disableRoot = `no-port-forwarding,no-agent-forwarding,no-X11-forwarding,command="echo 'Please login as the user \"%s\" rather than the user \"root\".';echo;sleep 10;exit 142"`

func (b *boot) run(ctx context.Context, userData []byte, first bool) {
	b.stage("init-local")
	b.stage("init")
	if first {
		if err := addUser(b.FS, b.User, b.Keys); err != nil {
			b.moduleFailed("ssh", b.User, err)
		}
		var keys []string
		for _, k := range b.Keys {
			keys = append(keys, fmt.Sprintf(disableRoot, b.User)+" "+k)
		}
		if err := addUser(b.FS, "root", keys); err != nil {
			b.moduleFailed("ssh", "root", err)
		}
	}
	parts, err := Parse(userData)
	if err != nil {
		b.warn("util.py", "Failed parsing user-data: %s", err)
		b.fail("user-data", "user data", err.Error())
		parts = nil
	}
	for _, p := range parts {
		switch p.Type {
		case typeScript, typeConfig, typeBoothook:
		case typePlain:
			b.warn("__init__.py", "Unhandled non-multipart (text/x-not-multipart) userdata: '%.24q...'", p.Body)
			b.result.Ignored = append(b.result.Ignored, p.Type)
		default:
			b.result.Ignored = append(b.result.Ignored, p.Type)
		}
	}
	cfg, err := readConfigs(parts)
	if err != nil {
		b.warn("util.py", "%s", err)
		b.fail("cloud-config", "user data", err.Error())
		cfg = &cloudConfig{}
	}
	for _, key := range cfg.ignored {
		b.result.Ignored = append(b.result.Ignored, "cloud-config "+key)
	}
	for _, p := range parts {
		if p.Type == typeBoothook {
			name := path.Join(boothooks, p.scriptName())
			b.execute(ctx, "cloud-boothook", name, bytes.TrimPrefix(p.Body, []byte("#cloud-boothook\n")))
		}
	}
	if len(cfg.Bootcmd) > 0 {
		if text, err := commandScript(cfg.Bootcmd); err != nil {
			b.moduleFailed("bootcmd", "bootcmd", err)
		} else {
			b.execute(ctx, "bootcmd", "/var/lib/cloud/instance/bootcmd.sh", text)
		}
	}
	if first {
		b.apply(cfg)
	}
	b.stage("modules:config")
	if first && len(cfg.Runcmd) > 0 {
		if text, err := commandScript(cfg.Runcmd); err != nil {
			b.moduleFailed("runcmd", "runcmd", err)
		} else if err := b.put(path.Join(scripts, "runcmd"), text); err != nil {
			b.moduleFailed("runcmd", "runcmd", err)
		}
	}
	b.stage("modules:final")
	if first {
		for i, f := range cfg.WriteFiles {
			if f.Defer {
				b.writeFile(i, f)
			}
		}
		for _, p := range parts {
			if p.Type != typeScript {
				continue
			}
			if err := b.put(path.Join(scripts, p.scriptName()), p.Body); err != nil {
				b.moduleFailed("scripts-user", p.scriptName(), err)
			}
		}
		b.runScripts(ctx)
	}
	fmt.Fprintf(b.out, "Cloud-init v. %s finished at %s. Datasource DataSourceEc2.  Up %.2f seconds\n", b.Version, b.stamp(), b.Up().Seconds())
}

func (p *Part) scriptName() string {
	if p.Filename != "" {
		return p.Filename
	}
	return fmt.Sprintf("part-%03d", p.Number)
}

// apply runs the modules that write files.
func (b *boot) apply(cfg *cloudConfig) {
	for i, f := range cfg.WriteFiles {
		if !f.Defer {
			b.writeFile(i, f)
		}
	}
	users, keepDefault := cfg.userList()
	if keepDefault && len(cfg.SSHAuthorizedKeys) > 0 {
		users = append(users, user{b.User, cfg.SSHAuthorizedKeys})
	}
	for _, u := range users {
		if err := addUser(b.FS, u.name, u.keys); err != nil {
			b.moduleFailed("users-groups", u.name, err)
		}
	}
	if name := cfg.Hostname; name != "" {
		if err := b.FS.WriteFile("/etc/hostname", []byte(name+"\n"), 0o644); err != nil {
			b.moduleFailed("update_hostname", name, err)
		}
	}
}

func (b *boot) writeFile(n int, f writeFile) {
	if f.Path == "" {
		b.warn("cc_write_files.py", "No path provided to write for entry %d in module write-files", n+1)
		return
	}
	if _, ok := encoding(f.Encoding); !ok {
		b.warn("cc_write_files.py", "Unknown encoding type %s, assuming text/plain", strings.ToLower(strings.TrimSpace(f.Encoding)))
	}
	if err := f.write(b.FS); err != nil {
		b.moduleFailed("write-files", f.Path, err)
	}
}

func (b *boot) put(name string, text []byte) error {
	if err := b.FS.WriteFile(name, text, 0o700); err != nil {
		return err
	}
	return b.FS.Chmod(name, 0o700)
}

// runScripts runs the files in the scripts folder, sorted by name, as cc_scripts_user does.
func (b *boot) runScripts(ctx context.Context) {
	list, err := b.FS.ReadDir(scripts)
	if err != nil {
		b.moduleFailed("scripts-user", scripts, err)
		return
	}
	failed, attempted := 0, 0
	for _, e := range list {
		if !e.Type().IsRegular() || ctx.Err() != nil {
			continue
		}
		attempted++
		if !b.runFile(ctx, "scripts-user", path.Join(scripts, e.Name())) {
			failed++
		}
	}
	if failed > 0 {
		b.warn("cc_scripts_user.py", "Failed to run module scripts-user (scripts in %s)", scripts)
		b.warn("util.py", "Running module scripts-user (<module 'cloudinit.config.cc_scripts_user'>) failed")
		fmt.Fprintf(b.log, "RuntimeError: Runparts: %d failures (%s) in %d attempted commands\n", failed, path.Base(scripts), attempted)
	}
}

// execute writes a file and runs it.
func (b *boot) execute(ctx context.Context, module, name string, text []byte) {
	if err := b.put(name, text); err != nil {
		b.moduleFailed(module, name, err)
		return
	}
	if !b.runFile(ctx, module, name) {
		b.warn("util.py", "Running module %s failed", module)
	}
}

func (b *boot) runFile(ctx context.Context, module, name string) bool {
	b.result.Scripts = append(b.result.Scripts, name)
	status, unknown, err := b.Run(ctx, name, []string{"INSTANCE_ID=" + b.InstanceID, "HOME=/root", "LANG=C.UTF-8"}, b.out)
	for _, u := range unknown {
		if !slices.Contains(b.result.Unknown, u) {
			b.result.Unknown = append(b.result.Unknown, u)
		}
	}
	switch {
	case err != nil && ctx.Err() == nil:
		fmt.Fprintln(b.out, "Killed")
		b.fail(module, name, err.Error())
		b.warn("subp.py", "Failed running %s [-9]", name)
		return false
	case err != nil:
		return false
	case status != 0:
		b.fail(module, name, fmt.Sprintf("exit status %d", status))
		b.warn("subp.py", "Failed running %s [%d]", name, status)
		return false
	}
	return true
}

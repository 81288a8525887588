package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
)

// errNotRunning says that no daemon uses the data folder.
var errNotRunning = errors.New("no Drydock is running")

// readInfo returns the daemon of the data folder. If the recorded process no longer exists (kill -9), there is none.
func (o *globalOptions) readInfo() (api.DaemonInfo, error) {
	info, err := api.ReadInfo(o.dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return api.DaemonInfo{}, o.notRunning()
	}
	if err != nil {
		return api.DaemonInfo{}, fmt.Errorf("reading the daemon's record: %w", err)
	}
	if !alive(info.PID) || !own(o.clientOf(info)) {
		return api.DaemonInfo{}, o.notRunning()
	}
	return info, nil
}

// client returns a client of the data folder's daemon.
func (o *globalOptions) client() (*api.Client, error) {
	info, err := o.readInfo()
	return o.clientOf(info), err
}

func (o *globalOptions) clientOf(info api.DaemonInfo) *api.Client {
	return &api.Client{Daemon: info, Agent: "drydock/" + o.version}
}

// pingPatience is how long a daemon may take to answer a ping. A daemon that hangs does not answer, but must still be
// stopped.
const pingPatience = 3 * time.Second

// own distinguishes the recorded daemon from another process that got its process ID after a crash: the daemon
// answers on its endpoint, or at least does not refuse connections.
func own(daemon *api.Client) bool {
	ctx, cancel := context.WithTimeout(context.Background(), pingPatience)
	defer cancel()
	p, err := daemon.Ping(ctx)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	return err != nil || p.PID == daemon.Daemon.PID
}

func (o *globalOptions) notRunning() error {
	return withHint(fmt.Errorf("%w on %s", errNotRunning, o.dataDir), "drydock up -d"+dataDirFlag(o.dataDir))
}

func alive(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && !zombie(pid)
}

// zombie reports whether a process has ended but has not been waited for, as happens in containers whose first
// process does not reap children. It only works on Linux.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	name := bytes.LastIndexByte(b, ')') // the program's name may contain anything
	return err == nil && name >= 0 && bytes.HasPrefix(b[name+1:], []byte(" Z"))
}

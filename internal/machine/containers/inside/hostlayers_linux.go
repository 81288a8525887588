package inside

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
)

// unpack unpacks an archive of images, in a process that has nothing else, until the daemon has lost interest.
func unpack(c *net.UnixConn, files []*os.File) error {
	w, err := childproc.StartWorker(childproc.WorkerSpec{
		Mode: layers.Mode, Executable: filepath.Join(programDir, "drydock-node"), Files: files,
		Attr: func(a *syscall.SysProcAttr) {
			a.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET
		},
	})
	if err != nil {
		return err
	}
	defer w.Kill()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = c.Read(make([]byte, 1)) // the daemon sends nothing more
		cancel()
	}()
	_, err = w.Receive(ctx) // "done"
	return err
}

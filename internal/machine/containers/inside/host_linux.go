package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/fabric"
)

// A host starts machines.
type host struct {
	cfg HostConfig

	fabric *fabric.Fabric

	mu       sync.Mutex // never held while a machine does something: its disk may be hostile
	machines map[string]*guest
	turns    map[string]*turn
}

func runHost(ctx context.Context, env childproc.Env) error {
	h := &host{machines: map[string]*guest{}, turns: map[string]*turn{}}
	if err := json.Unmarshal(env.Config, &h.cfg); err != nil {
		return err
	}
	for i := range 3 {
		syscall.CloseOnExec(childproc.FirstFile + i)
	}
	f := os.NewFile(childproc.FirstFile+1, "listener")
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("the host's listener: %w", err)
	}
	_ = f.Close()
	if err := hostRoot(childproc.FirstFile, childproc.FirstFile+2); err != nil {
		return err
	}
	if err := prepareCgroups(h.cfg.NoLimits); err != nil {
		return err
	}
	boundProcesses(h.cfg.PIDs)
	if h.fabric, err = fabric.Open(); err != nil {
		return err
	}
	go reap()
	go serve(l.(*net.UnixListener), h.handle)
	if err := env.Report([]byte("up")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil // and the kernel ends all machines
}

func (h *host) handle(c *net.UnixConn) {
	var r HostRequest
	files, err := Receive(c, &r)
	defer closeAll(files)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			answer(c, err)
		}
		return
	}
	switch {
	case r.Start != nil:
		answer(c, h.start(*r.Start, files))
	case r.Stop != "":
		answer(c, h.stop(r.Stop))
	case r.Wait != "":
		answer(c, h.wait(c, r.Wait))
	case r.Unpack && len(files) == 3:
		answer(c, unpack(c, files))
	case r.Apply && len(files) == 1:
		answer(c, h.apply(files[0]))
	case r.Attach != nil:
		answer(c, h.attachMore(*r.Attach))
	case r.Serve != nil:
		h.serve(c, *r.Serve)
	case r.Dial != nil, r.Open != "", r.Outside:
		f, err := h.socket(r)
		if err != nil {
			answer(c, err)
			return
		}
		answer(c, nil, f)
		_ = f.Close()
	default:
		answer(c, errors.New("unknown request"))
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
)

// Listen listens at the address of the daemon. If the port is taken, the error says which
// program has it, and what to do.
func Listen(ctx context.Context, cfg DaemonConfig) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen.String())
	port, where := cfg.Listen.Port(), cfg.Listen.Addr()
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		if other, ok := neighbour(ctx, cfg); ok {
			return nil, withHint(fmt.Errorf("port %d of %s is in use by another Drydock (process %d, data folder %s)", port, where, other.PID, other.DataDir), fmt.Sprintf("drydock up --port %d", port+1))
		}
		return nil, withHint(fmt.Errorf("port %d of %s is in use by another program", port, where), fmt.Sprintf("drydock up --port %d", port+1))
	case errors.Is(err, syscall.EACCES):
		return nil, withHint(fmt.Errorf("no permission to listen on port %d", port), fmt.Sprintf("drydock up --port %d", DefaultPort))
	}
	return nil, fmt.Errorf("listening on %s: %w", cfg.Listen, err)
}

// neighbourPatience is how long whoever has the port may take to say that it is a Drydock.
const neighbourPatience = 2 * time.Second

// neighbour asks the program that has the port who it is.
func neighbour(ctx context.Context, cfg DaemonConfig) (api.Ping, bool) {
	ctx, cancel := context.WithTimeout(ctx, neighbourPatience)
	defer cancel()
	host := cfg.Listen.Addr().String()
	if cfg.Listen.Addr().IsUnspecified() {
		host = "127.0.0.1"
	}
	other := &api.Client{Daemon: api.DaemonInfo{URL: "http://" + net.JoinHostPort(host, fmt.Sprint(cfg.Listen.Port()))}}
	p, err := other.Ping(ctx)
	return p, err == nil && p.PID != 0 && p.DataDir != ""
}

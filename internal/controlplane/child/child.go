// Package child is the control plane of one cluster in one process: kube-apiserver, kube-controller-manager and
// kube-scheduler of upstream Kubernetes. They are started as their commands start them, but share an address
// space, a context and the process-wide settings that each command assumes it owns.
//
// It is the only package that imports the servers of k8s.io/kubernetes, and only cmd/drydock imports it, to register
// it as a child mode.
package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/idle"
)

// Main runs a control plane until ctx ends.
func Main(ctx context.Context, env childproc.Env) int {
	report := func(r launch.Report) {
		if err := env.Report(r.Encode()); err != nil {
			klog.ErrorS(err, "Reporting to the parent", "event", r.Event)
		}
	}
	var cfg launch.Config
	if err := json.Unmarshal(env.Config, &cfg); err != nil {
		report(launch.Report{Event: launch.Fatal, Reason: fmt.Sprintf("reading the configuration: %v", err)})
		return 2
	}
	err := run(ctx, cfg, listenTo(ctx, env, cfg.Successor), report)
	klog.Flush()
	if ctx.Err() != nil || errors.Is(err, errRetired) {
		return 0
	}
	if err == nil {
		err = errors.New("a component stopped unexpectedly")
	}
	fmt.Fprintln(os.Stderr, "control plane:", err)
	report(launch.Report{Event: launch.Fatal, Reason: err.Error()})
	return 1
}

// errRetired ends a process that another one has replaced.
var errRetired = errors.New("replaced by another process")

// orders are the parent's commands.
type orders struct {
	lead, retire context.Context // done when the command has arrived
}

// listenTo receives the parent's commands. A process that is not a successor leads from the start.
func listenTo(ctx context.Context, env childproc.Env, successor bool) orders {
	lead, setLead := context.WithCancel(context.Background())
	retire, setRetire := context.WithCancel(context.Background())
	if !successor {
		setLead()
	}
	go func() { // ends with the process
		for {
			msg, err := env.Receive(ctx)
			if err != nil {
				return
			}
			switch launch.Command(msg) {
			case launch.Lead:
				setLead()
			case launch.Retire:
				setRetire()
			}
		}
	}()
	return orders{lead, retire}
}

func run(ctx context.Context, cfg launch.Config, orders orders, report func(launch.Report)) error {
	gc := startCollector()
	debug.SetMemoryLimit(memoryLimit)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	if err := setProcessWide(cfg); err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	daemon, err := newDaemonClient(cfg)
	if err != nil {
		return err
	}
	logs := captureLogs(daemon)
	api, err := newAPIServer(ctx, cfg, listener, logs)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}

	group, ctx := errgroup.WithContext(ctx)
	// On retirement the controllers stop before the API server, because another process takes over from them.
	controllers, stopControllers := context.WithCancel(ctx)
	defer stopControllers()
	component := func(ctx context.Context, name string, run func(context.Context) error) {
		group.Go(func() error {
			err := run(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return fmt.Errorf("%s: %w", name, err)
			}
			return fmt.Errorf("%s stopped unexpectedly", name)
		})
	}
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	component(serving, launch.APIServer, api.run)
	logged := make(chan struct{})
	group.Go(func() error { defer close(logged); logs.run(ctx); return nil })
	report(launch.Report{Event: launch.Listening, Port: port})
	group.Go(func() error {
		// The controller manager polls /healthz once a second. If it started a moment too early, it would lose a
		// whole second.
		if err := waitFor(ctx, api.loopback, "/healthz"); err != nil {
			return err
		}
		if cfg.Successor {
			if err := waitFor(ctx, api.loopback, "/readyz"); err != nil {
				return err
			}
			report(launch.Report{Event: launch.Serving, Port: port})
		}
		select {
		case <-orders.lead.Done():
		case <-ctx.Done():
			return nil
		}
		if err := writeKubeconfigs(cfg, port); err != nil {
			return err
		}
		component(controllers, launch.ControllerManager, func(ctx context.Context) error {
			return runControllerManager(logs.as(ctx, launch.ControllerManager), cfg)
		})
		component(controllers, launch.Scheduler, func(ctx context.Context) error { return runScheduler(logs.as(ctx, launch.Scheduler), cfg) })
		// Until a namespace has its default service account, it accepts no pods.
		for _, path := range []string{"/readyz", "/api/v1/namespaces/default/serviceaccounts/default"} {
			if err := waitFor(ctx, api.loopback, path); err != nil {
				return err
			}
		}
		if err := ensureWebhooks(ctx, cfg, api.loopback); err != nil {
			return fmt.Errorf("pod identity webhook: %w", err)
		}
		report(launch.Report{Event: launch.Ready, Port: port})
		if cfg.Copy {
			idle.Tend(ctx, gc.setIdle)
			return nil
		}
		group.Go(func() error { logs.runAutoMode(controllers, api.loopback); return nil })
		group.Go(func() error {
			// A cluster without load balancers is better than no cluster.
			for controllers.Err() == nil {
				if err := runCloudController(logs.as(controllers, launch.CloudControllerManager), daemon, api.loopback); err != nil {
					klog.ErrorS(err, "The cloud's service controller stopped")
				}
				_ = pause(controllers, cloudRetry)
			}
			return nil
		})
		idle.Tend(ctx, gc.setIdle)
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-orders.retire.Done():
	}
	stopControllers()
	api.retire(ctx, stopServing)
	cancel()
	<-logged // wait until the last lines have been sent
	return errRetired
}

// waitFor polls a path of the API server until the answer is OK.
func waitFor(ctx context.Context, cfg *rest.Config, path string) error {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+path, nil)
	if err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

package simulated_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/node"
)

// Faults kill the kubelet and fill the disk until they are cleared.
func TestFaultsOfAMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var broken atomic.Value
		broken.Store("")
		b.script = func(ctx context.Context, job shell.Job) (shell.Result, error) { return shell.Run(ctx, job) }
		b.broken = func(_ machine.Instance, unit string) *fault.Fault {
			if broken.Load() == unit {
				return &fault.Fault{ID: "F-1", Kind: fault.Kind(unit)}
			}
			return nil
		}
		if err := b.rt.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.start()
		in := b.instance()
		b.launch(in)
		after(10 * time.Second)
		b.api.bind(nodeName, pod("web"))
		after(10 * time.Second)
		m, ok := b.rt.Machine(in.ID)
		if !ok || b.info().Phase != node.PhaseReady {
			t.Fatalf("%+v", b.info())
		}

		broken.Store("kubelet")
		after(15 * time.Second)
		if out, _ := run(t, m, "systemctl is-active kubelet; systemctl start kubelet; systemctl is-failed kubelet; journalctl -n 1 -u kubelet -o cat; crictl ps -q | grep -c ."); out != "failed\nfailed\nkubelet.service: Failed with result 'signal'.\n2\n" {
			t.Errorf("a killed kubelet: %s", out)
		}
		var because *node.Decision
		for _, s := range b.info().Steps {
			if s.Name == node.StepBootstrap && !s.OK {
				because = s.Decision
			}
		}
		if because == nil || because.By != node.ByFault || because.Component != "F-1" {
			t.Errorf("%+v", b.info())
		}
		broken.Store("")
		after(15 * time.Second)
		if b.info().Phase != node.PhaseReady {
			t.Errorf("after the fault: %+v", b.info())
		}

		broken.Store("disk")
		after(30 * time.Second)
		disk := func() string {
			for _, c := range b.api.node(nodeName).Status.Conditions {
				if c.Type == corev1.NodeDiskPressure {
					return string(c.Status) + " " + c.Reason
				}
			}
			return ""
		}
		if got := disk(); got != "True KubeletHasDiskPressure" {
			t.Errorf("a full disk: %s", got)
		}
		if p := b.api.pod("default/web"); p.Status.Phase != corev1.PodFailed || p.Status.Reason != "Evicted" || !strings.HasPrefix(p.Status.Message, "The node was low on resource: ephemeral-storage. ") {
			t.Errorf("%+v", p.Status)
		}
		if out, _ := run(t, m, "df / | awk 'NR==2{print $5}'; journalctl -u kubelet -o cat | grep -c 'pod is evicted successfully'"); out != "100%\n1\n" {
			t.Errorf("a full disk: %s", out)
		}
		broken.Store("")
		after(time.Minute)
		if got := disk(); got != "False KubeletHasNoDiskPressure" {
			t.Errorf("after the fault: %s", got)
		}
	})
}

package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestBenchLoadBalancer measures Services of type LoadBalancer on a node that runs containers: how soon a client on this
// machine gets the first byte of a pod, and how fast bytes come.
func TestBenchLoadBalancer(t *testing.T) {
	measure(t)
	d := upContainers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	archive, err := testkit.ImageArchive(flowImage, "./testdata/flow", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "flow.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(d.bin, "image", "load", file, "--data-dir", d.dir).CombinedOutput(); err != nil {
		t.Fatalf("image load: %v\n%s", err, out)
	}
	role, nodeRole := d.roles(ctx)
	subnets := d.subnets(ctx)
	d.createCluster(ctx, "c", role, subnets)
	kc := d.kubeconfig("c")
	d.join(ctx, "c", nodeRole, subnets, 1, 1)
	kubectl := func(args ...string) {
		t.Helper()
		if out, err := d.kubectl(kc, args...); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
	}
	kubectl("create", "deployment", "flow", "--image", flowImage)
	kubectl("rollout", "status", "deployment/flow", "--timeout=2m")

	for _, kind := range []string{"classic", "nlb"} {
		var took []time.Duration
		var address string
		for i := range 3 {
			name := fmt.Sprint(kind, i)
			manifest := filepath.Join(t.TempDir(), name+".yaml")
			text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"annotations":{"service.beta.kubernetes.io/aws-load-balancer-type":%q}},`+
				`"spec":{"type":"LoadBalancer","selector":{"app":"flow"},"ports":[{"port":5001}]}}`, name, strings.TrimPrefix(kind, "classic"))
			if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			kubectl("apply", "-f", manifest)
			address = d.firstByte(ctx, name)
			took = append(took, time.Since(begun))
		}
		t.Logf("%s load balancer: kubectl apply of a Service until the first byte: median %v of %v", kind, median(took), took)
		for range 3 {
			t.Logf("%s load balancer: a TCP connection to a pod, five seconds: %.1f Gbit/s", kind, receive(t, address))
		}
	}
	d.timeDown(t)
}

// firstByte waits until a Service's pod answers at its URL, and returns the address.
func (d *drydock) firstByte(ctx context.Context, service string) string {
	d.t.Helper()
	for ctx.Err() == nil {
		out, _ := exec.CommandContext(ctx, d.bin, "url", "svc/"+service, "--data-dir", d.dir).Output() // it fails until a target is healthy
		address := strings.TrimPrefix(strings.TrimSpace(string(out)), "tcp://")
		if address != "" {
			if c, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				_, err = c.Read(make([]byte, 1))
				_ = c.Close()
				if err == nil {
					return address
				}
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	d.t.Fatal(ctx.Err())
	return ""
}

// receive returns how many gigabits a second come from an address, over five seconds.
func receive(t *testing.T, address string) float64 {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begun := time.Now()
	if err := c.SetDeadline(begun.Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 1<<20)) // ends by the deadline
	return float64(n) * 8 / 1e9 / time.Since(begun).Seconds()
}

package simulated_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/sandbox"
	"github.com/drydock-dev/drydock/internal/machine/machinetest"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestMain(m *testing.M) {
	if code, ok := (childproc.Modes{sandbox.Mode: sandbox.Main}).Dispatch(context.Background(), os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// memoryDisks keeps volumes for as long as the test.
type memoryDisks struct{ all sync.Map }

func (d *memoryDisks) Load(id string) ([]byte, bool, error) {
	b, ok := d.all.Load(id)
	if !ok {
		return nil, false, nil
	}
	return b.([]byte), true, nil
}

func (d *memoryDisks) Save(id string, data []byte) error {
	d.all.Store(id, data)
	return nil
}

// computer is the contract's world of simulated machines with one family of images.
func computer(t *testing.T, family images.Family) machinetest.World {
	scripts := sandbox.NewPool(sandbox.Config{})
	t.Cleanup(scripts.Close)
	disks := &memoryDisks{}
	return machinetest.World{
		Runtime: func(t *testing.T) machine.Runtime {
			return simulated.New(node.Config{
				Credentials: func(context.Context, string) (aws.Credentials, error) { return aws.Credentials{}, errors.New("none") },
				Log:         testkit.Log(t),
			}, simulated.Options{RunScript: scripts.Run, Disks: disks, Dial: func(_ context.Context, _ machine.Instance, host string, port int) (net.Conn, error) {
				return nil, fmt.Errorf("no way to %s:%d", host, port)
			}})
		},
		Instance: machine.Instance{
			Account: "000000000000", Region: "us-east-1", ID: "i-0123456789abcdef0", BootID: "1",
			Type: instancetypes.Type{Name: "m5.large", VCPU: 2, MemoryMiB: 8192}, Image: images.Image{ID: "ami-1", Architecture: "x86_64", Family: family, KubeletVersion: "1.36.2"},
			PrivateIP: netip.MustParseAddr("10.0.0.1"), PrivateDNSName: nodeName,
			Interfaces: []machine.Interface{{ID: "eni-1", MAC: "02:00:00:00:00:01", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}},
		},
		Interfaces: func(t *testing.T, m machine.Machine) []string {
			out, _ := run(t, m, "cat /sys/class/net/e*/address")
			return strings.Fields(out)
		},
	}
}

// run runs a script as root.
func run(t *testing.T, m machine.Machine, script string) (string, int) {
	t.Helper()
	var out strings.Builder
	status, err := machine.Run(t.Context(), m, machine.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return out.String(), status
}

func TestSimulatedMachinesAreMachines(t *testing.T) {
	t.Run("Amazon Linux", func(t *testing.T) { machinetest.Run(t, computer(t, images.AL2023)) })
}

// An image without a shell runs no programs.
func TestBottlerocketHasNoShell(t *testing.T) {
	w := computer(t, images.Bottlerocket)
	r := w.Runtime(t)
	defer r.Shutdown(context.Background())
	if err := r.Start(t.Context(), w.Instance); err != nil {
		t.Fatal(err)
	}
	m, _ := r.Machine(w.Instance.ID)
	_, err := m.Exec(t.Context(), machine.Command{})
	if e, ok := errors.AsType[*machine.UnsupportedError](err); !ok || e.Ability != machine.Exec {
		t.Errorf("running a program: %v", err)
	}
	want := "instance i-0123456789abcdef0 cannot run programs: its image has no shell"
	if err == nil || err.Error() != want {
		t.Errorf("the error says %q, want %q", err, want)
	}
}

// The kubelet's health port is a port of the machine, only on localhost.
func TestKubeletsHealthPort(t *testing.T) {
	b := newBench(t)
	in := b.instance()
	b.launch(in)
	m, ok := b.rt.Machine(in.ID)
	if !ok {
		t.Fatal("the machine is not on")
	}
	var conn net.Conn
	testkit.Eventually(t, 10*time.Second, func() (err error) {
		conn, err = m.Dial(t.Context(), "localhost", 10248)
		return err
	})
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != "ok" || res.StatusCode != http.StatusOK {
		t.Errorf("%s: %q (%v)", res.Status, body, err)
	}
	if c, err := m.Dial(t.Context(), in.PrivateIP.String(), 10248); err == nil {
		c.Close()
		t.Error("it listens on the instance's own address")
	}
}

// What a session on a machine looks at first.
func TestProgramsSeeTheirMachine(t *testing.T) {
	w := computer(t, images.AL2023)
	w.Instance.UserData = []byte("#!/bin/sh\necho from user data\n")
	r := w.Runtime(t)
	defer r.Shutdown(context.Background())
	if err := r.Start(t.Context(), w.Instance); err != nil {
		t.Fatal(err)
	}
	m, _ := r.Machine(w.Instance.ID)
	<-m.Booted()
	testkit.Eventually(t, 20*time.Second, func() error {
		if out, _ := run(t, m, "cat /var/log/cloud-init-output.log"); !strings.Contains(out, "from user data\n") || !strings.Contains(out, "finished at") {
			return fmt.Errorf("cloud-init's log is %q", out)
		}
		return nil
	})
	for script, want := range map[string]string{
		"hostname":                                    nodeName + "\n",
		"ls /sys/class/net":                           "ens5\nlo\n",
		"systemctl is-active containerd":              "active\n",
		"journalctl -u containerd -o cat | tail -n 1": "Started containerd.service - containerd container runtime.\n",
		"curl -s localhost:9 || echo $?":              "7\n",
		"sudo -u ec2-user id -un":                     "ec2-user\n",
	} {
		if out, status := run(t, m, script); out != want || status != 0 {
			t.Errorf("%s: %q, status %d; want %q", script, out, status, want)
		}
	}
	if !strings.Contains(string(m.Console()), "from user data") {
		t.Errorf("the console says %q", m.Console())
	}
}

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// goRunner starts the program that its arguments name, as the program of that name in Kubernetes' images does.
func goRunner() error {
	if len(os.Args) < 2 {
		return errors.New("go-runner: no program to run")
	}
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		return err
	}
	return fmt.Errorf("starting %s: %w", path, syscall.Exec(path, os.Args[1:], os.Environ()))
}

// confFile is the configuration that aws-node writes, as its container sees it.
const confFile = "/host/etc/cni/net.d/10-aws.conflist"

// cniConf is what makes containerd call drydock-cni.
const cniConf = `{"cniVersion": "1.0.0", "name": "aws-cni", "plugins": [{"type": "drydock-cni", "capabilities": {"portMappings": true}}]}
`

// awsNode takes the place of the VPC CNI plugin's container aws-node: it lets the node become Ready when the instance has
// addresses for pods, which Drydock's daemon gets from EC2 by the container's environment.
func awsNode() error {
	fmt.Println("aws-node of Drydock: it takes the place of amazon-vpc-cni-k8s. Drydock's daemon calls EC2 in its place, with its role; see `drydock why node`.")
	if err := replace(launch.PolicyModeFile, cmp.Or(os.Getenv("NETWORK_POLICY_ENFORCING_MODE"), "standard")); err != nil {
		return err
	}
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var ready []byte
	for waited := false; ; waited = true {
		var err error
		if ready, err = os.ReadFile(launch.ReadyFile); err == nil {
			break
		}
		if !waited {
			fmt.Println("waiting for addresses from EC2")
		}
		select {
		case <-stopped:
			return nil
		case <-tick.C:
		}
	}
	// Where the probes of older and newer manifests connect.
	for network, address := range map[string]string{"unix": launch.AWSNodeDir + "/ipamd.sock", "tcp": "127.0.0.1:50051"} {
		l, err := listen(network, address)
		if err != nil {
			return err
		}
		defer l.Close()
	}
	var address netip.Addr // invalid if pods do not reach the internet with it
	if len(ready) > 0 && os.Getenv("AWS_VPC_K8S_CNI_EXTERNALSNAT") != "true" {
		var err error
		if address, err = netip.ParseAddr(string(ready)); err != nil {
			return fmt.Errorf("reading %s: %w", launch.ReadyFile, err)
		}
	}
	if err := markConnections(address); err != nil {
		return err
	}
	if err := replace(confFile, cniConf); err != nil {
		return err
	}
	fmt.Println("the node has addresses for pods; wrote", confFile)
	<-stopped
	return nil
}

// replace writes a file that others may read at the same time.
func replace(file, content string) error {
	temporary := file + ".new"
	return errors.Join(os.WriteFile(temporary, []byte(content), 0o644), os.Rename(temporary, file))
}

// listen accepts connections, until it is closed, to show that the program runs.
func listen(network, address string) (net.Listener, error) {
	if network == "unix" {
		if err := os.Remove(address); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return l, nil
}

// policyAgent takes the place of the container aws-eks-nodeagent. Drydock's own binary enforces network policies, which
// takes more memory, so it runs only where they are on.
func policyAgent() error {
	const program = "/opt/drydock/bin/aws-network-policy-agent"
	if slices.Contains(os.Args[1:], "--enable-network-policy=true") {
		return fmt.Errorf("starting %s: %w", program, syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ()))
	}
	_ = exec.Command("/opt/drydock/bin/nft", "delete", "table", "ip", "aws_network_policy").Run() // fails if policies were never enforced here
	idle("aws-eks-nodeagent of Drydock: network policies are not enforced on this node")
	return nil
}

// probe reports whether a program listens at the address after -addr.
func probe() error {
	for _, a := range os.Args[1:] {
		addr, ok := strings.CutPrefix(a, "-addr=")
		if !ok {
			continue
		}
		network := "tcp"
		if path, ok := strings.CutPrefix(addr, "unix://"); ok {
			network, addr = "unix", path
		}
		c, err := net.DialTimeout(network, addr, 5*time.Second)
		if err != nil {
			return fmt.Errorf("timeout: failed to connect service %q within 5s: %w", addr, err)
		}
		return c.Close()
	}
	return errors.New("-addr is not specified")
}

// idle takes the place of a container that has nothing to do here. It says so, and waits until it is stopped.
func idle(text string) {
	fmt.Println(text)
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	<-stopped
}

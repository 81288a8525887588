package ami

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// A Sandbox is a pod as containerd sees it.
type Sandbox struct {
	ID, Name, Namespace string
	Ready               bool
	Created             time.Time
	Containers          []Container
}

// A Container is a container of a pod.
type Container struct {
	ID, Name, Image string
	Running         bool
	Created         time.Time
	Restarts        int
}

func (m *Machine) pods() []Sandbox {
	if m.world.Surroundings.Pods == nil {
		return nil
	}
	out := m.world.Surroundings.Pods()
	slices.SortFunc(out, func(a, b Sandbox) int { return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.Name, b.Name)) })
	return out
}

func shortID(id string) string { return id[:min(13, len(id))] }

// ago formats the age of something as crictl does.
func (m *Machine) ago(t time.Time) string {
	switch d := m.world.Clock.Since(t); {
	case d < time.Second:
		return "Less than a second ago"
	case d < time.Minute:
		return fmt.Sprintf("%d seconds ago", int(d.Seconds()))
	case d < 2*time.Minute:
		return "About a minute ago"
	case d < time.Hour:
		return fmt.Sprintf("%d minutes ago", int(d.Minutes()))
	case d < 2*time.Hour:
		return "About an hour ago"
	default:
		return fmt.Sprintf("%d hours ago", int(d.Hours()))
	}
}

// crictl shows pods, containers and images in the format of cri-tools 1.3x.
func (m *Machine) crictl(_ context.Context, c *shell.Call) int {
	args, options := operandsOf(separated(c.Args[1:], "r"), "rio")
	if len(args) == 0 {
		return c.Fail("simulated nodes support crictl ps [-a] [-q], pods, images, logs, info and version")
	}
	if c.User != "root" {
		fmt.Fprintln(c.Stderr, `FATA[0000] validate service connection: validate CRI v1 runtime API for endpoint "unix:///run/containerd/containerd.sock": rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: permission denied"`)
		return 1
	}
	if !m.Active("containerd") {
		fmt.Fprintln(c.Stderr, `FATA[0000] validate service connection: validate CRI v1 runtime API for endpoint "unix:///run/containerd/containerd.sock": rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused"`)
		return 1
	}
	w := tabwriter.NewWriter(c.Stdout, 20, 1, 3, ' ', 0)
	defer w.Flush()
	quiet, all := strings.Contains(options, "q"), strings.Contains(options, "a")
	switch args[0] {
	case "ps":
		if !quiet {
			fmt.Fprintln(w, "CONTAINER\tIMAGE\tCREATED\tSTATE\tNAME\tATTEMPT\tPOD ID\tPOD\tNAMESPACE")
		}
		for _, p := range m.pods() {
			for _, k := range p.Containers {
				state := "Running"
				if !k.Running {
					state = "Exited"
				}
				switch {
				case !k.Running && !all:
				case quiet:
					fmt.Fprintln(w, k.ID)
				default:
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", shortID(k.ID), k.Image, m.ago(k.Created), state, k.Name, k.Restarts, shortID(p.ID), p.Name, p.Namespace)
				}
			}
		}
	case "pods":
		if !quiet {
			fmt.Fprintln(w, "POD ID\tCREATED\tSTATE\tNAME\tNAMESPACE\tATTEMPT\tRUNTIME")
		}
		for _, p := range m.pods() {
			state := "Ready"
			if !p.Ready {
				state = "NotReady"
			}
			if quiet {
				fmt.Fprintln(w, p.ID)
			} else {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t0\t(default)\n", shortID(p.ID), m.ago(p.Created), state, p.Name, p.Namespace)
			}
		}
	case "images", "image":
		fmt.Fprintln(w, "IMAGE\tTAG")
		for _, i := range m.images() {
			name, tag := i, "latest"
			if at := strings.LastIndexByte(i, ':'); at > strings.LastIndexByte(i, '/') {
				name, tag = i[:at], i[at+1:]
			}
			fmt.Fprintf(w, "%s\t%s\n", name, tag)
		}
	case "logs":
		if len(args) < 2 {
			return c.Fail("ID cannot be empty")
		}
		for _, p := range m.pods() {
			for _, k := range p.Containers {
				if strings.HasPrefix(k.ID, args[1]) && m.world.Surroundings.ContainerLog != nil {
					text, err := m.world.Surroundings.ContainerLog(k.ID)
					if err != nil {
						fmt.Fprintf(c.Stderr, "FATA[0000] %s\n", err)
						return 1
					}
					fmt.Fprint(c.Stdout, text)
					return 0
				}
				if strings.HasPrefix(k.ID, args[1]) {
					fmt.Fprintf(c.Stderr, "the container %s of %s/%s runs no program on a simulated node, so it has printed nothing\n", k.Name, p.Namespace, p.Name)
					return 0
				}
			}
		}
		fmt.Fprintf(c.Stderr, "FATA[0000] rpc error: code = NotFound desc = an error occurred when try to find container %q: not found\n", args[1])
		return 1
	case "version":
		fmt.Fprint(c.Stdout, "Version:  0.1.0\nRuntimeName:  containerd\nRuntimeApiVersion:  v1\n")
	case "info":
		ready, reason, message := true, "", ""
		if !m.networkReady() {
			ready, reason, message = false, "NetworkPluginNotReady", "Network plugin returns error: cni plugin not initialized"
		}
		b, err := json.MarshalIndent(map[string]any{"status": map[string]any{"conditions": []map[string]any{
			{"type": "RuntimeReady", "status": true, "reason": "", "message": ""}, {"type": "NetworkReady", "status": ready, "reason": reason, "message": message},
		}}}, "", "  ")
		if err != nil {
			return c.Fail("%s", err)
		}
		fmt.Fprintln(c.Stdout, string(b))
	default:
		return c.Fail("simulated nodes support crictl ps [-a] [-q], pods, images, logs, info and version")
	}
	return 0
}

// networkReady reports whether the CNI plugin is initialized, which aws-node does.
func (m *Machine) networkReady() bool {
	return slices.ContainsFunc(m.pods(), func(p Sandbox) bool {
		return p.Namespace == "kube-system" && strings.HasPrefix(p.Name, "aws-node-") && p.Ready && slices.ContainsFunc(p.Containers, func(k Container) bool { return k.Name == "aws-node" && k.Running })
	})
}

// images returns the images of the machine's containers, sorted.
func (m *Machine) images() []string {
	var out []string
	for _, p := range m.pods() {
		for _, k := range p.Containers {
			out = append(out, k.Image)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ctr lists containers and images in the namespace k8s.io.
func (m *Machine) ctr(_ context.Context, c *shell.Call) int {
	namespace := cmp.Or(c.Getenv("CONTAINERD_NAMESPACE"), "default") // all other namespaces are empty
	var args []string
	for i := 1; i < len(c.Args); i++ {
		name, value, given := strings.Cut(c.Args[i], "=")
		switch name {
		case "-n", "--namespace", "-a", "--address":
			if !given && i+1 < len(c.Args) {
				i++
				value = c.Args[i]
			}
			if strings.HasSuffix(name, "n") || name == "--namespace" {
				namespace = value
			}
		default:
			if !strings.HasPrefix(name, "-") {
				args = append(args, name)
			}
		}
	}
	if len(args) < 2 {
		return c.Fail("simulated nodes support ctr -n k8s.io c ls and i ls")
	}
	if !m.Active("containerd") {
		fmt.Fprintln(c.Stderr, `ctr: cannot access socket /run/containerd/containerd.sock: no such file or directory`)
		return 1
	}
	w := tabwriter.NewWriter(c.Stdout, 4, 8, 4, ' ', 0)
	defer w.Flush()
	switch args[0] {
	case "c", "container", "containers":
		fmt.Fprintln(w, "CONTAINER\tIMAGE\tRUNTIME\t")
		for _, p := range m.pods() {
			for _, k := range p.Containers {
				if namespace == "k8s.io" {
					fmt.Fprintf(w, "%s\t%s\tio.containerd.runc.v2\t\n", k.ID, k.Image)
				}
			}
		}
	case "i", "image", "images":
		fmt.Fprintln(w, "REF\t")
		for _, i := range m.images() {
			if namespace == "k8s.io" {
				fmt.Fprintf(w, "%s\t\n", i)
			}
		}
	default:
		return c.Fail("simulated nodes support ctr -n k8s.io c ls and i ls")
	}
	return 0
}

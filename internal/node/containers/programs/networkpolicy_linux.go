package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/internal/netpolicy"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// runNetworkPolicyAgent enforces the network policies of a node's pods: the container aws-eks-nodeagent of aws-node if network
// policies are on. EKS's agent does it by eBPF at the pods' interfaces, this one by nftables in the machine's network.
// https://github.com/aws/aws-network-policy-agent
func runNetworkPolicyAgent([]string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Println("aws-eks-nodeagent of Drydock: enforcing network policies with nftables")
	return code(enforcePolicies(ctx))
}

// modeInterval is how often the mode in which policies are enforced is read, standard or strict. The container aws-node, whose
// environment has it, writes the file before the node can have pods, and may be replaced.
const modeInterval = 5 * time.Second

func enforcePolicies(ctx context.Context) error {
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	inf := factory.ForResource(schema.GroupVersionResource{Group: "networking.k8s.aws", Version: "v1alpha1", Resource: "policyendpoints"}).Informer()
	wake := make(chan struct{}, 1)
	kick := func(any) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: kick, UpdateFunc: func(_, now any) { kick(now) }, DeleteFunc: kick}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
		return nil
	}
	mode := firstMode(ctx)
	tick := time.NewTicker(modeInterval)
	defer tick.Stop()
	again := time.NewTimer(0) // the first pass, and those after failures
	defer again.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return nil // the rules stay, as EKS's programs do
		case <-tick.C:
			now := readMode()
			if now == "" || now == mode {
				continue
			}
			mode = now
		case <-wake:
		case <-again.C:
		}
		rules, err := policyRules(inf.GetIndexer().List(), mode == "strict")
		if err == nil && rules != last {
			if err = applyRules(ctx, rules); err == nil {
				last = rules
			}
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "enforcing network policies:", err)
			again.Reset(2 * time.Second)
		}
	}
}

// readMode returns the mode, or "" if aws-node has not written a valid one.
func readMode() string {
	b, _ := os.ReadFile(launch.PolicyModeFile)
	if mode := string(b); mode == "strict" || mode == "standard" {
		return mode
	}
	return ""
}

// firstMode waits a moment for aws-node, which starts at the same time. Without its word the mode is standard, as on EKS.
func firstMode(ctx context.Context) string {
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	patience := time.After(modeInterval)
	for {
		if mode := readMode(); mode != "" {
			return mode
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ""
		case <-patience:
			fmt.Println("the container aws-node has not said in which mode policies are enforced: it is standard until then")
			return "standard"
		}
	}
}

// policyRules returns the node's rules by all PolicyEndpoints.
func policyRules(all []any, strict bool) (string, error) {
	var specs []netpolicy.Spec
	for _, obj := range all {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		raw, err := json.Marshal(u.Object["spec"])
		if err != nil {
			return "", err
		}
		var s netpolicy.Spec
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", fmt.Errorf("PolicyEndpoint %s/%s: %w", u.GetNamespace(), u.GetName(), err)
		}
		specs = append(specs, s)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	own := map[string]bool{}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok {
			own[ip.IP.String()] = true
		}
	}
	return netpolicy.Ruleset(specs, func(hostIP string) bool { return own[hostIP] }, strict), nil
}

func applyRules(ctx context.Context, rules string) error {
	c := exec.CommandContext(ctx, "/opt/drydock/bin/nft", "-f", "-")
	c.Stdin = strings.NewReader(rules)
	if out, err := c.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}

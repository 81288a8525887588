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
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/internal/netpolicy"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// runNetworkPolicyAgent enforces the network policies of a node's pods, and ClusterNetworkPolicies: the container aws-eks-nodeagent of aws-node if network
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

// forbiddenInterval is how often an agent that may not read ClusterPolicyEndpoints tries again.
const forbiddenInterval = time.Minute

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
	group := schema.GroupVersion{Group: "networking.k8s.aws", Version: "v1alpha1"}
	wake := make(chan struct{}, 1)
	kick := func(any) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	follow := func(resource string) (cache.Indexer, error) {
		inf := factory.ForResource(group.WithResource(resource)).Informer()
		if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: kick, UpdateFunc: func(_, now any) { kick(now) }, DeleteFunc: kick}); err != nil {
			return nil, err
		}
		factory.Start(ctx.Done())
		cache.WaitForCacheSync(ctx.Done(), inf.HasSynced)
		return inf.GetIndexer(), nil
	}
	namespaced, err := follow("policyendpoints")
	if err != nil {
		return err
	}
	// Clusters get the kind some time after their first start with this version. Roles of the VPC CNI before 1.21 do not let its agent
	// see ClusterNetworkPolicies, and it enforces none.
	const clusterEndpoints = "clusterpolicyendpoints"
	var clusterWide cache.Indexer // nil until they can be read
	var lookAt time.Time          // not before
	forbidden := false
	due := func() bool { return clusterWide == nil && !time.Now().Before(lookAt) }
	look := func() error {
		_, err := client.Resource(group.WithResource(clusterEndpoints)).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err == nil:
			clusterWide, err = follow(clusterEndpoints)
		case apierrors.IsForbidden(err):
			err = nil
			lookAt = time.Now().Add(forbiddenInterval)
			if !forbidden {
				forbidden = true
				fmt.Println("this version of the VPC CNI may not read ClusterPolicyEndpoints: ClusterNetworkPolicies are not enforced")
			}
		case apierrors.IsNotFound(err):
			err = nil
			lookAt = time.Now().Add(modeInterval)
		}
		return err
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
			if (now == "" || now == mode) && !due() {
				continue
			}
			if now != "" {
				mode = now
			}
		case <-wake:
		case <-again.C:
		}
		p := netpolicy.Policies{Strict: mode == "strict"}
		var err error
		if due() {
			err = look()
		}
		if err == nil {
			p.Namespaced, err = specs[netpolicy.Spec](namespaced)
		}
		if err == nil && clusterWide != nil {
			p.Cluster, err = specs[netpolicy.ClusterSpec](clusterWide)
		}
		rules := ""
		if err == nil {
			rules, err = policyRules(p)
		}
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

// specs returns the specifications of objects by their names, so that the same objects make the same rules.
func specs[T any](of cache.Indexer) ([]T, error) {
	var out []T
	for _, key := range slices.Sorted(slices.Values(of.ListKeys())) {
		obj, _, err := of.GetByKey(key)
		if err != nil {
			return nil, err
		}
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		raw, err := json.Marshal(u.Object["spec"])
		if err != nil {
			return nil, err
		}
		var s T
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("%s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		}
		out = append(out, s)
	}
	return out, nil
}

// policyRules returns the node's rules.
func policyRules(p netpolicy.Policies) (string, error) {
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
	return p.Ruleset(func(hostIP string) bool { return own[hostIP] }), nil
}

func applyRules(ctx context.Context, rules string) error {
	c := exec.CommandContext(ctx, "/opt/drydock/bin/nft", "-f", "-")
	c.Stdin = strings.NewReader(rules)
	if out, err := c.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}

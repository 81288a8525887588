package node_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drydock-dev/drydock/internal/node"
)

func TestLifecycleFollowsInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objs []*corev1.Node
		for _, name := range []string{"stays", "stops", "goes", "elsewhere"} {
			objs = append(objs, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-" + name, Taints: []corev1.Taint{{Key: "own", Effect: "NoSchedule"}}},
			})
		}
		objs[3].Spec.ProviderID = ""
		client := fake.NewClientset()
		for _, o := range objs {
			if err := client.Tracker().Add(o); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		states := map[string]node.InstanceState{}
		var failure error
		set := func(id string, s node.InstanceState, err error) {
			mu.Lock()
			defer mu.Unlock()
			states["aws:///us-east-1a/i-"+id], failure = s, err
		}
		l := node.NewLifecycle(node.LifecycleConfig{Client: client, State: func(_ context.Context, id string) (node.InstanceState, error) {
			mu.Lock()
			defer mu.Unlock()
			return states[id], failure
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		look := func() map[string]int {
			<-time.After(time.Second)
			synctest.Wait()
			list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]int{}
			for _, n := range list.Items {
				out[n.Name] = len(n.Spec.Taints)
			}
			return out
		}
		check := func(what string, want map[string]int) {
			t.Helper()
			if diff := cmp.Diff(want, look()); diff != "" {
				t.Errorf("%s: nodes and their taints (-want +got):\n%s", what, diff)
			}
		}
		all := map[string]int{"stays": 1, "stops": 1, "goes": 1, "elsewhere": 1}
		check("at first", all)

		set("goes", node.InstanceGone, errors.New("EC2 does not answer"))
		l.Check()
		check("while EC2 does not answer", all)

		set("goes", node.InstanceGone, nil)
		set("stops", node.InstanceStopped, nil)
		l.Check()
		<-time.After(5 * time.Second)
		want := maps.Clone(all)
		delete(want, "goes")
		want["stops"] = 2
		check("afterwards", want)

		set("stops", node.InstanceExists, nil)
		<-time.After(time.Minute) // without being asked
		want["stops"] = 1
		check("started again", want)

		events, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "DeletingNode" && e.InvolvedObject.Name == "goes"
		}) {
			t.Errorf("events %+v", events.Items)
		}
		cancel()
		<-done
	})
}

// A machine that ends while it registers leaves a node behind that the check at its end did not find.
func TestLifecycleFindsLateNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		l := node.NewLifecycle(node.LifecycleConfig{Client: client, State: func(context.Context, string) (node.InstanceState, error) {
			return node.InstanceGone, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		<-time.After(2 * time.Minute)
		l.Check()
		synctest.Wait()
		late := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-late"}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(6 * time.Second)
		synctest.Wait()
		list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 0 {
			t.Errorf("%d nodes after six seconds, want none (%v)", len(list.Items), err)
		}
		cancel()
		<-done
	})
}

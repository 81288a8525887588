package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
)

// While a cluster is upgraded through all versions and rolled back by one, clients write and watch: every acknowledged
// write is there, watchers see all of them, and no client gets a server error.
func TestUpgradesUnderLoad(t *testing.T) {
	w := newKubernetes(t)
	key := account
	key.Version = "1.33"
	p := w.claim("arn", key)
	client := func() *kubernetes.Clientset {
		return w.clientset(&rest.Config{Host: p.Endpoint, TLSClientConfig: rest.TLSClientConfig{CAData: p.CAPEM}, BearerToken: "good", QPS: 100, Burst: 1}, nil)
	}
	admin := w.clientset(w.RESTConfig(p.ID))
	load := startLoad(t, client)

	versions := []string{}
	for _, v := range eksversions.All()[1:] {
		versions = append(versions, v.Minor)
	}
	for i, v := range append(versions, "1.35") {
		began := time.Now()
		if err := w.Upgrade(t.Context(), p.ID, v); err != nil {
			t.Fatal(err)
		}
		t.Logf("to %s: %s, longest gap so far %s", v, time.Since(began).Round(10*time.Millisecond), load.gap().Round(time.Millisecond))
		got, err := admin.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if "1."+got.Minor != v {
			t.Errorf("version %+v after the upgrade to %s", got, v)
		}
		_, err = admin.Discovery().ServerResourcesForGroupVersion("resource.k8s.io/v1")
		if served := err == nil; served != (eksversions.Number(v) >= 34) {
			t.Errorf("%s serves resource.k8s.io/v1: %v, %v", v, served, err)
		}
		controllersWork(t, admin, fmt.Sprintf("d%d", i))
	}
	load.finish(t, admin)
}

// controllersWork creates a deployment and waits for its pod.
func controllersWork(t *testing.T, client *kubernetes.Clientset, name string) {
	t.Helper()
	labels := map[string]string{"app": name}
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		if err == nil && len(pods.Items) == 0 {
			err = errors.New("no pod")
		}
		return err
	})
}

// A load is a set of clients that constantly write, watch and read.
type load struct {
	stop    context.CancelFunc
	wg      sync.WaitGroup
	watched cache.Store

	mu       sync.Mutex
	answered []string // names of objects whose creation was acknowledged
	reset    int      // requests that lost their connection
	failures []error
	longest  time.Duration
}

const writers = 4

func startLoad(t *testing.T, client func() *kubernetes.Clientset) *load {
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop}
	t.Cleanup(func() { stop(); l.wg.Wait() })
	factory := informers.NewSharedInformerFactory(client(), 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	l.watched = informer.GetStore()
	factory.Start(ctx.Done())
	l.wg.Go(func() { <-ctx.Done(); factory.Shutdown() })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the watch does not start")
	}
	for i := range writers {
		c := client()
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.write(ctx, c, fmt.Sprintf("w%d-%d", i, n))
			}
		})
	}
	c := client()
	l.wg.Go(func() { l.ask(ctx, c) })
	return l
}

// write creates an object. If the connection is lost, it retries, because it cannot know whether the object was
// created.
func (l *load) write(ctx context.Context, c *kubernetes.Clientset, name string) {
	for ctx.Err() == nil {
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if !l.lostConnection(ctx, err) {
			if err == nil {
				l.mu.Lock()
				l.answered = append(l.answered, name)
				l.mu.Unlock()
			}
			return
		}
	}
}

// lostConnection records an error, and reports whether a client would retry its request.
func (l *load) lostConnection(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil || apierrors.IsAlreadyExists(err) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
		l.failures = append(l.failures, err)
		return false
	}
	l.reset++
	return true
}

// ask measures the longest gap between two answers.
func (l *load) ask(ctx context.Context, c *kubernetes.Clientset) {
	last := time.Now()
	for ctx.Err() == nil {
		_, err := c.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		if l.lostConnection(ctx, err); err != nil {
			continue
		}
		now := time.Now()
		l.mu.Lock()
		l.longest = max(l.longest, now.Sub(last))
		l.mu.Unlock()
		last = now
	}
}

func (l *load) gap() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.longest
}

func (l *load) finish(t *testing.T, admin *kubernetes.Clientset) {
	t.Helper()
	l.mu.Lock()
	answered := l.answered
	l.mu.Unlock()
	eventually(t, func() error {
		for _, name := range answered {
			if _, ok, _ := l.watched.GetByKey("default/" + name); !ok {
				return fmt.Errorf("the watcher has not seen %s", name)
			}
		}
		return nil
	})
	l.stop()
	l.wg.Wait()
	all, err := admin.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	for _, m := range all.Items {
		stored[m.Name] = true
	}
	for _, name := range l.answered {
		if !stored[name] {
			t.Errorf("%s was created and is lost", name)
		}
	}
	for _, err := range l.failures {
		t.Errorf("a request failed: %v", err)
	}
	t.Logf("%d writes, %d requests lost their connection, longest gap %s", len(l.answered), l.reset, l.longest.Round(time.Millisecond))
}

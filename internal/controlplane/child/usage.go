package child

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

const (
	// usagePause is the minimum time between two messages about the use of deprecated APIs.
	usagePause = time.Second
	// maxUses is the maximum number of API and client pairs counted between two messages. Further pairs are ignored.
	maxUses = 256
	// maxUserAgent is the length to which user agents are truncated.
	maxUserAgent = 256
)

// The annotations of audit events with which the API server marks requests to deprecated APIs.
// https://kubernetes.io/docs/reference/labels-annotations-taints/audit-annotations/
const (
	deprecatedAnnotation = "k8s.io/deprecated"
	removedAnnotation    = "k8s.io/removed-release"
)

// A usage counts requests to deprecated APIs, except those of this process, and sends the counts to the daemon.
type usage struct {
	daemon *daemonClient
	// self is the prefix of the user agents of this process's components, which are not counted.
	self string
	wake chan struct{}

	mu     sync.Mutex
	counts map[launch.APIUse]int // the Requests field of keys is 0

	current sync.Map // of resources that are known not to be deprecated
}

// A resource is what the API server serves under a path, and what is deprecated.
type resource struct{ group, version, name, sub string }

func newUsage(daemon *daemonClient) *usage {
	return &usage{daemon: daemon, self: rest.DefaultKubernetesUserAgent(), wake: make(chan struct{}, 1), counts: map[launch.APIUse]int{}}
}

// isCurrent reports whether a resource is known not to be deprecated, so that requests for it need not be observed.
func (u *usage) isCurrent(r resource) bool {
	_, ok := u.current.Load(r)
	return ok
}

// learn notes the resource of a successful request that had no deprecation mark when it ended. Custom resources are left out: they
// can become deprecated.
func (u *usage) learn(e *auditinternal.Event) {
	o := e.ObjectRef
	if e.Stage == auditinternal.StageResponseComplete && o != nil && e.ResponseStatus != nil && e.ResponseStatus.Code/100 == 2 && e.Annotations[deprecatedAnnotation] == "" &&
		legacyscheme.Scheme.IsVersionRegistered(schema.GroupVersion{Group: o.APIGroup, Version: o.APIVersion}) {
		u.current.Store(resource{o.APIGroup, o.APIVersion, o.Resource, o.Subresource}, true)
	}
}

// observe counts an audited request.
func (u *usage) observe(e *auditinternal.Event) {
	u.learn(e)
	if e.Annotations[deprecatedAnnotation] != "true" || e.ObjectRef == nil || e.Stage != auditinternal.StageResponseComplete || strings.HasPrefix(e.UserAgent, u.self) {
		return
	}
	path := "/api/"
	if e.ObjectRef.APIGroup != "" {
		path = "/apis/" + e.ObjectRef.APIGroup + "/"
	}
	u.add(launch.APIUse{
		API: path + e.ObjectRef.APIVersion + "/" + e.ObjectRef.Resource, Removed: e.Annotations[removedAnnotation],
		UserAgent: strings.ToValidUTF8(e.UserAgent[:min(len(e.UserAgent), maxUserAgent)], ""),
	}, 1)
}

func (u *usage) add(use launch.APIUse, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.counts[use]; known || len(u.counts) < maxUses {
		u.counts[use] += n
	}
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// run sends the counts until ctx ends.
func (u *usage) run(ctx context.Context) {
	for {
		select {
		case <-u.wake:
			u.send(ctx)
		case <-ctx.Done():
			u.send(context.WithoutCancel(ctx))
			return
		}
		_ = pause(ctx, usagePause)
	}
}

func (u *usage) send(ctx context.Context) {
	u.mu.Lock()
	var message launch.Usage
	for use, n := range u.counts {
		use.Requests = n
		message.Uses = append(message.Uses, use)
	}
	clear(u.counts)
	u.mu.Unlock()
	if len(message.Uses) == 0 {
		return
	}
	sent := message.Uses
	if err := u.daemon.call(ctx, launch.UsagePath, time.Second, &message); err != nil {
		klog.ErrorS(err, "Reporting the use of deprecated APIs")
		for _, use := range sent { // retry with the next message
			n := use.Requests
			use.Requests = 0
			u.add(use, n)
		}
	}
}

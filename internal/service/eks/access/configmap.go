package access

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

const (
	authNamespace = "kube-system"
	authName      = "aws-auth"
	// authWait is how long a login waits for the first read of aws-auth.
	authWait = 5 * time.Second
)

// AuthMap returns the cluster's aws-auth as last seen; it is empty if there is
// none.
func (s *Service) AuthMap(ctx context.Context, planeID string) (*AuthMap, error) {
	ses, err := s.Sessions.Get(planeID)
	if err != nil {
		return nil, err
	}
	w := plane.Value(ses, s.watchAuth)
	ctx, cancel := context.WithTimeout(ctx, authWait)
	defer cancel()
	select {
	case <-w.synced:
		return w.current.Load(), nil
	case <-ctx.Done():
		return nil, plane.ErrNoAnswer
	}
}

// An authWatch follows the aws-auth ConfigMap.
type authWatch struct {
	current atomic.Pointer[AuthMap]
	synced  chan struct{}
}

func (s *Service) watchAuth(ses *plane.Session) *authWatch {
	w := &authWatch{synced: make(chan struct{})}
	w.current.Store(&AuthMap{})
	maps := ses.Client.CoreV1().ConfigMaps(authNamespace)
	only := fields.OneTermEqualSelector("metadata.name", authName).String()
	inf := ses.Informer(&corev1.ConfigMap{},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return maps.List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return maps.Watch(ctx, o)
		}, nil)
	set := func(obj any) {
		cm, ok := obj.(*corev1.ConfigMap)
		if !ok || cm.Name != authName {
			return
		}
		m, err := parseAuthMap(cm.Data)
		if m.data == nil {
			m.data = map[string]string{}
		}
		if err != nil {
			s.Log.Info("part of aws-auth is unreadable; the rest is used", "err", err)
		}
		m.Invalid = err
		w.current.Store(m)
	}
	reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, obj any) { set(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if cm, ok := obj.(*corev1.ConfigMap); ok && cm.Name == authName {
				w.current.Store(&AuthMap{})
			}
		},
	})
	if err != nil {
		s.Log.Error("watching aws-auth", "err", err)
		return w
	}
	ses.Go(func() {
		if cache.WaitForCacheSync(ses.Context.Done(), reg.HasSynced) {
			close(w.synced)
		}
	})
	return w
}

// MapNodeRole adds a role of nodes of a type of access entries to aws-auth, which it
// makes if need be.
func MapNodeRole(ctx context.Context, ses *plane.Session, role, typ string) error {
	return editAuth(ctx, ses, func(data map[string]string) (map[string]string, bool, error) {
		return withRole(data, WithoutPath(role), typ)
	})
}

// UnmapNodeRole removes what MapNodeRole added.
func UnmapNodeRole(ctx context.Context, ses *plane.Session, role, typ string) error {
	return editAuth(ctx, ses, func(data map[string]string) (map[string]string, bool, error) {
		return withoutRole(data, WithoutPath(role), typ)
	})
}

// WithoutPath is the ARN by which aws-auth knows a role.
func WithoutPath(role string) string {
	prefix, _, ok := strings.Cut(role, ":role/")
	if !ok {
		return role
	}
	return prefix + ":role/" + RoleName(role)
}

func editAuth(ctx context.Context, ses *plane.Session, edit func(map[string]string) (map[string]string, bool, error)) error {
	maps := ses.Client.CoreV1().ConfigMaps(authNamespace)
	cm, err := maps.Get(ctx, authName, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: authName, Namespace: authNamespace}}
	} else if err != nil {
		return fmt.Errorf("reading aws-auth: %w", err)
	}
	data, changed, err := edit(cm.Data)
	if err != nil {
		return fmt.Errorf("aws-auth: %w", err)
	}
	if !changed {
		return nil
	}
	cm = cm.DeepCopy()
	cm.Data = data
	if missing {
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	} else {
		_, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing aws-auth: %w", err)
	}
	return nil
}

package podidentity

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// accountReads reads the annotations of service accounts for pods being made. Each
// answer is of a read that began after it was asked for, so that a pod made right
// after `kubectl annotate` is never missed; the pods of a Deployment, made at once,
// share such reads.
type accountReads struct {
	ses *plane.Session

	mu    sync.Mutex
	reads map[string]*accountRead // by NAMESPACE/NAME
}

// An accountRead is the read in progress for one service account, and the next one,
// which callers that came after it began wait for.
type accountRead struct {
	next *accountAnswer // nil if no caller waits
}

type accountAnswer struct {
	done        chan struct{}
	annotations map[string]string
	err         error
}

func newAccountReads(ses *plane.Session) *accountReads {
	return &accountReads{ses: ses, reads: map[string]*accountRead{}}
}

// annotations returns a service account's annotations; none if it is not there.
func (a *accountReads) annotations(ctx context.Context, namespace, name string) (map[string]string, error) {
	key := namespace + "/" + name
	a.mu.Lock()
	r := a.reads[key]
	begin := r == nil
	if begin {
		r = &accountRead{}
		a.reads[key] = r
	}
	if r.next == nil {
		r.next = &accountAnswer{done: make(chan struct{})}
	}
	answer := r.next
	a.mu.Unlock()
	if begin {
		go a.read(namespace, name, r) // ends when no caller waits; a read ends with the session
	}
	select {
	case <-answer.done:
		return answer.annotations, answer.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read reads for the callers that wait, until none does.
func (a *accountReads) read(namespace, name string, r *accountRead) {
	for {
		a.mu.Lock()
		answer := r.next
		r.next = nil
		if answer == nil {
			delete(a.reads, namespace+"/"+name)
		}
		a.mu.Unlock()
		if answer == nil {
			return
		}
		sa, err := a.ses.Client.CoreV1().ServiceAccounts(namespace).Get(a.ses.Context, name, metav1.GetOptions{})
		switch {
		case err == nil:
			answer.annotations = sa.Annotations
		case !apierrors.IsNotFound(err):
			answer.err = fmt.Errorf("service account %s/%s: %w", namespace, name, err)
		}
		close(answer.done)
	}
}

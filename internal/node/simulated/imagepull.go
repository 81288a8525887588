package simulated

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated/image"
)

// The kubelet's messages about images.
// https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/images/image_manager.go
const (
	reasonErrImagePull      = "ErrImagePull"
	reasonImagePullBackOff  = "ImagePullBackOff"
	reasonErrImageNeverPull = "ErrImageNeverPull"
)

// pullSettles is when a pod is checked again after an image could not be pulled. It then reports that it waits.
const pullSettles = 2 * time.Second

// An imageStore holds what a node has pulled.
type imageStore struct {
	puller image.Puller
	// credentials returns those of the role that pulls.
	credentials func(context.Context) (aws.Credentials, error)
	present     map[string]bool
	tokens      map[string]registryToken // by region
}

// A registryToken is what ecr-credential-provider returned for ECR.
type registryToken struct {
	of    aws.Credentials // it acts for the role session that asked for it
	until time.Time       // when the kubelet forgets it
}

// tokenKept is how long the kubelet caches what ecr-credential-provider returned: half of a token's life.
// https://github.com/kubernetes/cloud-provider-aws/blob/master/cmd/ecr-credential-provider/main.go
const tokenKept = 6 * time.Hour

// pulled is the result of a pull.
type pulled struct {
	took time.Duration
	err  error
}

func (i *imageStore) has(n image.Name) bool { return i.present[n.Full] }

func (i *imageStore) pull(ctx context.Context, n image.Name, now time.Time) pulled {
	p := i.puller
	p.Call = func(ctx context.Context, c node.Call) error {
		token, ok := i.tokens[c.Region]
		ok = ok && now.Before(token.until)
		switch {
		case ok && c.Action == node.ActionGetToken:
			return nil
		case c.Action == node.ActionGetToken:
			return i.getToken(ctx, c, now)
		case ok:
			c.Credentials = &token.of
		}
		return i.puller.Call(ctx, c)
	}
	took, err := p.Pull(ctx, n)
	if err == nil {
		i.present[n.Full] = true
	}
	return pulled{took, err}
}

// getToken asks for a token and caches it.
func (i *imageStore) getToken(ctx context.Context, c node.Call, now time.Time) error {
	if err := i.puller.Call(ctx, c); err != nil {
		return err
	}
	creds, err := i.credentials(ctx)
	if err != nil {
		return err
	}
	until := now.Add(tokenKept)
	if creds.CanExpire && creds.Expires.Before(until) {
		until = creds.Expires
	}
	i.tokens[c.Region] = registryToken{creds, until}
	return nil
}

// found records the images of a pod that ran here before the daemon was restarted.
func (i *imageStore) found(m *podMachine) {
	for _, cs := range [][]container{m.inits, m.apps} {
		for j := range cs {
			if c := &cs[j]; c.state != waiting || c.last != nil {
				if n, err := image.Parse(c.image); err == nil {
					i.present[n.Full] = true
				}
			}
		}
	}
}

// pull is the state of getting a container's image.
type pull struct {
	began, done time.Time // of the attempt in progress; zero if there is none
	err         error     // of the last attempt
	backoff     time.Duration
	retry       time.Time // when to try again
	failed      time.Time
	have        bool // it was pulled, but the container does not exist yet
}

// never reports whether the image is missing and may not be pulled.
func (c *container) never(n image.Name, e env) bool {
	return c.policy == corev1.PullNever && e.has != nil && !e.has(n)
}

// always reports whether the registry is asked even if the image is present. API servers set a policy in each pod.
func (c *container) always() bool { return c.policy == corev1.PullAlways }

// pullImage makes progress on getting a container's image, and reports whether the image is present.
func (m *podMachine) pullImage(c *container, e env, at func(time.Time)) bool {
	n, err := image.Parse(c.image)
	if err != nil {
		return false // already reported
	}
	if c.pull.have {
		return true
	}
	if e.pull == nil || !c.always() && c.pull.done.IsZero() && e.has(n) {
		c.pull = pull{have: true}
		m.event(e.now, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.image), c)
		return true
	}
	if c.never(n, e) {
		if c.reason != reasonErrImageNeverPull {
			text := fmt.Sprintf("Container image %q is not present with pull policy of Never", c.image)
			m.event(e.now, corev1.EventTypeWarning, reasonErrImageNeverPull, text, c)
			m.event(e.now, corev1.EventTypeWarning, "Failed", "Error: "+reasonErrImageNeverPull, c)
			m.holdBack(c, reasonErrImageNeverPull, text)
		}
		at(e.now.Add(pullBackoff))
		return false
	}
	p := &c.pull
	if p.done.IsZero() {
		if e.now.Before(p.retry) {
			m.awaitPull(c, e, at)
			return false
		}
		m.event(e.now, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.image), c)
		result := e.pull(n)
		p.began, p.done, p.err = e.now, e.now.Add(result.took), result.err
	}
	if e.now.Before(p.done) {
		at(p.done)
		return false
	}
	took := p.done.Sub(p.began)
	p.began, p.done = time.Time{}, time.Time{}
	if p.err == nil {
		*p = pull{have: true}
		m.event(e.now, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting)", c.image, took, took), c)
		return true
	}
	m.event(e.now, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.image, p.err), c)
	m.event(e.now, corev1.EventTypeWarning, "Failed", "Error: "+reasonErrImagePull, c)
	m.holdBack(c, reasonErrImagePull, p.err.Error())
	p.backoff = min(max(2*p.backoff, pullBackoff), maxBackoff)
	p.failed, p.retry = e.now, e.now.Add(p.backoff)
	at(e.now.Add(pullSettles))
	return false
}

// pullBackoff is the first back-off of a failed pull. It doubles up to maxBackoff, as for containers.
const pullBackoff = 10 * time.Second

// awaitPull handles an image whose back-off has not ended yet.
func (m *podMachine) awaitPull(c *container, e env, at func(time.Time)) {
	p := &c.pull
	if settled := p.failed.Add(pullSettles); e.now.Before(settled) {
		at(settled)
		return
	}
	at(p.retry)
	if c.reason == reasonImagePullBackOff {
		return
	}
	text := fmt.Sprintf("Back-off pulling image %q", c.image)
	m.event(e.now, corev1.EventTypeNormal, "BackOff", text, c)
	m.event(e.now, corev1.EventTypeWarning, "Failed", "Error: "+reasonImagePullBackOff, c)
	m.holdBack(c, reasonImagePullBackOff, text+": "+reasonErrImagePull+": "+p.err.Error())
}

// holdBack records why a container does not start.
func (m *podMachine) holdBack(c *container, reason, message string) {
	if c.reason != reason || c.message != message {
		c.reason, c.message, m.dirty = reason, message, true
	}
}

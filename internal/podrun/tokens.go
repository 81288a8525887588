package podrun

import (
	"context"
	"errors"
	"time"

	"github.com/drydock-dev/drydock/internal/service/eks"
)

const (
	// maxTokenAge is how long a token is used at most, however long it is valid.
	maxTokenAge = 24 * time.Hour
	// tokenRetry is the pause after a token could not be issued.
	tokenRetry = time.Minute
)

// podTokens are the tokens of a run, renewed like the kubelet's.
type podTokens struct {
	tokens []eks.PodToken
	issue  func(ctx context.Context, t eks.PodToken) (token string, expires time.Time, err error)
	next   []time.Time // when each is due; nil means now
}

// due returns when the next token must be renewed.
func (p *podTokens) due() time.Time {
	first := time.Now().Add(maxTokenAge) // without tokens there is nothing to do
	for _, t := range p.next {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

// renew issues the tokens that are due, as files. A token whose renewal failed is due again soon.
func (p *podTokens) renew(ctx context.Context, now time.Time) (map[string][]byte, error) {
	if p.next == nil {
		p.next = make([]time.Time, len(p.tokens))
	}
	files := map[string][]byte{}
	var errs []error
	for i, t := range p.tokens {
		if p.next[i].After(now) {
			continue
		}
		token, expires, err := p.issue(ctx, t)
		if err != nil {
			errs = append(errs, err)
			p.next[i] = now.Add(tokenRetry)
			continue
		}
		files[t.Path] = []byte(token)
		p.next[i] = renewal(now, expires)
	}
	return files, errors.Join(errs...)
}

// renewal returns when the kubelet renews a token: after 80 % of its life, or after a day.
// https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#launch-a-pod-using-service-account-token-projection
func renewal(issued, expires time.Time) time.Time {
	return issued.Add(min(expires.Sub(issued)*4/5, maxTokenAge))
}
